"""The command line: exit codes, help and start-up, without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sshwarma.cli.main import cli, main
from sshwarma.settings import logs


def every_command(
    group: click.Group = cli, *path: str
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, *path, name)
        else:
            yield (*path, name), command


COMMANDS = dict(every_command())


def test_the_commands_are_these() -> None:
    assert {" ".join(path) for path in COMMANDS} == {
        "serve", "keys add", "keys list", "keys remove", "agents list", "agents role",
        "agents disable", "agents enable", "invite", "token new", "token list", "token revoke",
        "backup", "restore", "config show", "doctor", "version",
    }  # fmt: skip


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_the_common_options(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: sshwarma {' '.join(path)}" in shown
    for parameter in COMMANDS[path].params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name
    common = {"--config", "--data-dir", "--json"}
    assert path == ("version",) or all(option in shown for option in common)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Commands:"),
        (["keys"], "Commands:"),
        (["dance"], "No such command 'dance'"),
        (["keys", "add", "ann"], "Missing argument 'FILE'"),
        (["agents", "role", "ann", "king"], "'owner', 'admin', 'member', 'guest'"),
        (["serve", "--registration", "maybe"], "'closed', 'invite', 'open'"),
        (["invite", "--hours", "soon"], "'soon' is not a valid float"),
        (["doctor", "--verbose"], "No such option"),
    ],
)
def test_wrong_usage_is_status_2_and_said_on_stderr(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


def test_an_operation_without_a_server_works_on_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Logging is the whole process's: later tests would write to this test's closed stderr.
    monkeypatch.setattr(logs, "configure_logging", lambda settings: None)
    data = ["--data-dir", str(tmp_path / "data")]
    key = tmp_path / "id.pub"
    key.write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo\n"
    )
    assert main(["keys", "add", "ann", str(key), "--role", "admin", *data]) == 0
    assert "ann (admin) may log in with SHA256:" in capsys.readouterr().out
    assert main(["token", "new", "ann", "--label", "laptop", *data]) == 0
    capsys.readouterr()
    assert main(["token", "list", "--json", *data]) == 0
    (token,) = json.loads(capsys.readouterr().out)
    assert main(["token", "revoke", token["id"], *data]) == 0
    assert capsys.readouterr().out == f"Revoked token {token['id']} of ann.\n"
    assert main(["keys", "list", "--json", *data]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert main(["keys", "remove", "ann", listed["fingerprint"], *data]) == 0
    assert capsys.readouterr().out == f"Removed key {listed['fingerprint']} of ann.\n"
    assert main(["agents", "disable", "bob", *data]) == 1
    assert "sshwarma: There is no agent bob." in capsys.readouterr().err


@pytest.mark.process
def test_version_imports_neither_the_server_nor_the_settings() -> None:
    script = (
        "import sys; from sshwarma.cli.main import main; main(['version']);"
        "print(sorted({'asyncio', 'asyncssh', 'pydantic', 'sqlalchemy', 'sshwarma.app'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1] == "[]"
