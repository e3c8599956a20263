"""The command line: exit codes, help and start-up, without a server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sshwarma.cli.main import cli, main
from sshwarma.common.exit_status import EXIT_USAGE
from sshwarma.settings import logs


def every_command(
    group: click.Group = cli, *path: str
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, *path, name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield (*path, name), command


COMMANDS = dict(every_command())


def test_command_line_has_exactly_these_commands() -> None:
    assert {" ".join(path) for path in COMMANDS} == {
        "serve", "reload", "init", "migrate", "recover", "audit", "keys add", "keys list",
        "keys remove", "agents list", "agents role", "agents rename", "agents remove",
        "agents disable", "agents enable", "invite", "invite list", "invite revoke", "token new",
        "token list", "token revoke", "backup", "restore", "import", "vacuum", "broadcast",
        "host-key show", "host-key next", "host-key switch", "config show", "doctor", "version",
        "info", "toolset serve", "plugins check", "build", "drain", "migrate-to",
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
    without_world = (("version",), ("toolset", "serve"), ("plugins", "check"))
    assert path in without_world or all(option in shown for option in common)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Commands:"),
        (["keys"], "Commands:"),
        (["juggle"], "No such command 'juggle'"),
        (["keys", "add", "ann"], "Missing argument 'FILE'"),
        (["agents", "role", "ann", "king"], "'owner', 'admin', 'member', 'guest'"),
        (["serve", "--registration", "maybe"], "'closed', 'invite', 'open'"),
        (["invite", "--hours", "soon"], "'soon' is not a valid float"),
        (["invite", "--role", "guest", "list"], "Give --role after list: sshwarma invite list"),
        (["doctor", "--verbose"], "No such option"),
    ],
)
def test_usage_error_exits_2_and_prints_to_stderr(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


@pytest.fixture
def data(newborn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The flags that name a data directory with a world."""
    # Logging is the whole process's: later tests would write to this test's closed stderr.
    monkeypatch.setattr(logs, "configure_logging", lambda settings: None)
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    shutil.copyfile(newborn, directory / "world.db")
    return ["--data-dir", str(directory)]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A public key file."""
    path = tmp_path / "id.pub"
    path.write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo\n"
    )
    return path


@pytest.mark.parametrize("words", [
    ["keys", "add", "ann", "KEY"], ["keys", "list"], ["agents", "list"], ["invite"],
    ["token", "new", "ann", "--label", "a"], ["backup", "OUT"],
])  # fmt: skip
def test_commands_refuse_a_data_dir_without_a_world(
    words: list[str], key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "none"
    paths = {"KEY": str(key), "OUT": str(tmp_path / "out.tar.gz")}
    assert main([*(paths.get(word, word) for word in words), "--data-dir", str(empty)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"sshwarma: The directory {empty} does not contain a world. Make one with:"
        f" sshwarma init --data-dir {empty}\n"
    )
    assert not empty.exists()


def test_invite_is_refused_unless_registration_mode_is_invite(
    data: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["invite", *data]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "sshwarma: Registration is closed, so an invite code cannot be used. Start the server with"
        " --registration invite.\n"
    )
    monkeypatch.setenv("SSHWARMA_REGISTRATION__MODE", "open")
    assert main(["invite", *data]) == 1
    assert (
        "Registration is open, so an invite code is not needed: any new key may log in."
        in capsys.readouterr().err
    )
    monkeypatch.setenv("SSHWARMA_REGISTRATION__MODE", "invite")
    assert main(["invite", *data]) == 0
    assert len(capsys.readouterr().out.split()) == 1


@pytest.mark.parametrize(("words", "said"), [
    (["keys", "add", "zed", "/nosuch"], "/nosuch not found."),
    (["keys", "add", "zed", "/"], "/ is a directory."),
    (["backup", "/nosuch/w.tar.gz"], "The directory /nosuch does not exist."),
    (["backup", "BINARY"], "BINARY already exists. Choose another."),
    (["restore", "/nosuch", "--force"], "/nosuch not found."),
    (["restore", "BINARY"], "world.db already exists. --force replaces it."),
])  # fmt: skip
def test_os_error_is_printed_as_a_sentence(
    words: list[str], said: str, data: list[str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00\x80" * 20)
    assert main([*(str(binary) if word == "BINARY" else word for word in words), *data]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("sshwarma: ")
    assert said.replace("BINARY", str(binary)) in printed.err
    assert "Errno" not in printed.err


def test_malformed_key_is_wrong_usage(
    data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00\x80" * 20)
    assert main(["keys", "add", "zed", str(binary), *data]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("sshwarma: Invalid key: ")


def test_lists_have_aligned_columns(
    data: list[str], key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = key.read_text()
    assert main(["keys", "add", "ann", str(key), *data]) == 0
    key.write_text(text.replace("JPPvUwE", "JPPvUwF").strip() + " laptop\n")
    assert main(["keys", "add", "barnabas", str(key), *data]) == 0
    capsys.readouterr()
    assert main(["keys", "list", *data]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.index("SHA256:") == second.index("SHA256:") == len("barnabas  ")
    assert second.endswith("  laptop")
    assert main(["agents", "list", *data]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split() == [
        "ann",
        "member",
        "person",
        "1",
        "key",
        "0",
        "connected",
        "never",
        "seen",
    ]
    assert first.index("member") == second.index("member")


def test_operation_without_a_running_server_uses_the_database(
    data: list[str], key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "add", "ann", str(key), "--role", "admin", *data]) == 0
    printed = capsys.readouterr()
    assert "ann (admin) may log in with SHA256:" in printed.out
    assert printed.err == f"World: {tmp_path / 'data'}\n"
    assert main(["token", "new", "ann", "--label", "laptop", *data]) == 0
    capsys.readouterr()
    assert main(["token", "list", "--json", *data]) == 0
    printed = capsys.readouterr()
    assert printed.err == "", "nothing was changed"
    (token,) = json.loads(printed.out)
    assert token["scope"] == "act"
    assert main(["token", "revoke", token["id"], *data]) == 0
    assert capsys.readouterr().out == f"Revoked token {token['id']} of ann.\n"
    assert main(["keys", "list", "--json", *data]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert main(["keys", "remove", "ann", listed["fingerprint"], *data]) == 0
    assert capsys.readouterr().out == f"Removed key {listed['fingerprint']} of ann.\n"
    assert main(["agents", "disable", "bob", *data]) == 1
    assert "sshwarma: Unknown agent bob." in capsys.readouterr().err


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


@pytest.mark.process
def test_commands_find_their_world_without_the_parts_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "world.db").touch()
    script = (
        "import sys; from pathlib import Path; from sshwarma.cli.invocation import Invocation;"
        f"path = Path({str(tmp_path)!r});"
        "print(Invocation(None, path, False).world_settings().data_dir == path);"
        "print(sorted({'asyncssh', 'sqlalchemy', 'sshwarma.app', 'sshwarma.verbs'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n[]\n"
