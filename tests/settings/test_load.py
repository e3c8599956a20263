"""Settings: where each value comes from, and what is said of wrong ones."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from pydantic import BaseModel, ValidationError

from sshwarma.cli.main import main
from sshwarma.common.exit_status import EXIT_USAGE
from sshwarma.common.user_names import name_user
from sshwarma.settings import (
    InvalidSettingsError,
    McpSettings,
    Settings,
    is_loopback,
    load_settings,
    split_address,
)

NOBODY: Final = 65_534
"""The number of a user without rights."""


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own settings."""
    for name in list(os.environ):
        if name.startswith(("SSHWARMA_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.toml"
    path.write_text(
        'motd = "from the file"\n[ssh]\nlisten = "127.0.0.1:1"\nlogin_seconds = 5\n'
        "max_pending = 7\n[limits]\nline_bytes = 1000\n"
    )
    return path


def test_flags_override_environment_file_and_defaults(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSHWARMA_SSH__LOGIN_SECONDS", "6")
    monkeypatch.setenv("SSHWARMA_SSH__LISTEN", "127.0.0.1:2")
    monkeypatch.setenv("SSHWARMA_LIMITS__LINE_BYTES", "2000")
    found = load_settings(file, ssh={"listen": "127.0.0.1:3"})
    assert found.ssh.listen == "127.0.0.1:3"  # flag
    assert found.ssh.login_seconds == 6  # environment
    assert found.ssh.max_pending == 7  # file
    assert found.ssh.keepalive_seconds == 15  # default
    assert found.limits.line_bytes == 2000
    assert found.motd == "from the file"


def test_settings_file_applies_to_one_load_only(file: Path) -> None:
    assert load_settings(file).motd == "from the file"
    assert load_settings().motd == ""


@pytest.mark.parametrize("place", ["sshwarma.toml", ".config/sshwarma/sshwarma.toml"])
def test_settings_file_of_others_is_not_obeyed_unless_it_is_named(
    tmp_path: Path, place: str
) -> None:
    """In a shared directory it would start programs as another user."""
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('motd = "mine"')
    path.chmod(0o666)
    with pytest.raises(InvalidSettingsError, match=r"can be written by all users.*--config"):
        load_settings()
    assert load_settings(path).motd == "mine"
    path.chmod(0o644)
    assert load_settings().motd == "mine"
    if os.geteuid() == 0:  # only root can give a file to another user
        os.chown(path, 4321, 4321)
        with pytest.raises(InvalidSettingsError, match="belongs to another user"):
            load_settings()
        path.rename(tmp_path / "own.toml")
        os.chown(tmp_path / "own.toml", 0, 0)
        path.symlink_to(tmp_path / "own.toml")
        assert load_settings().motd == "mine"
        os.chown(path, 4321, 4321, follow_symlinks=False)
        with pytest.raises(InvalidSettingsError, match="belongs to another user"):
            load_settings()


def test_settings_file_is_found_in_cwd_then_config_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".config" / "sshwarma"
    home.mkdir(parents=True)
    (home / "sshwarma.toml").write_text('motd = "home"')
    assert load_settings().motd == "home"
    (tmp_path / "sshwarma.toml").write_text('motd = "here"')
    assert load_settings().motd == "here"
    (tmp_path / "sshwarma.toml").unlink()
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/is/ignored")
    assert load_settings().motd == "home"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert load_settings().motd == ""


def test_data_dir_follows_xdg_data_home_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().data_dir == tmp_path / ".local" / "share" / "sshwarma"
    monkeypatch.setenv("XDG_DATA_HOME", "/srv")
    assert load_settings().data_dir == Path("/srv/sshwarma")
    monkeypatch.setenv("SSHWARMA_DATA_DIR", "/elsewhere")
    assert load_settings().database_file == Path("/elsewhere/world.db")


A_MODEL = '[[models]]\nname = "qwen"\n'


@pytest.mark.parametrize(("text", "said"), [
    ('moto = "typo"', "moto: unknown setting (did you mean motd?)"),
    ("foo = 1", "foo: unknown setting"),
    ("[finding]\nthreshold = 0.2", "finding: unknown setting (it is called search now)"),
    ("[ssh]\nlissen = 1", "ssh.lissen: unknown setting (did you mean listen?)"),
    ("ssh = 3", "ssh: must be a table (got 3)"),
    ("models = 3", "models: must be tables headed [[models]] (got 3)"),
    ('[http]\nhosts = "x"',
     "http.hosts: must be a list, such as [\"world.example.org\"] (got x)"),
    ('[http]\nhosts = ["a b"]',
     "http.hosts.0: must be a host name, such as world.example.org (got a b)"),
    ('[ssh]\nlisten = "nowhere"',
     "ssh.listen: must be HOST:PORT, such as 127.0.0.1:2222 (got nowhere)"),
    ('[ssh]\nlisten = "127.0.0.1:99999"',
     "ssh.listen: the port must be at most 65535 (got 99999)"),
    ("[ssh]\nlogin_seconds = 0", "ssh.login_seconds: must be more than 0 (got 0)"),
    ("[ssh]\nlogin_seconds = 601", "ssh.login_seconds: must be at most 600 (got 601)"),
    ("[ssh]\nmax_pending = 1.5", "ssh.max_pending: must be a whole number (got 1.5)"),
    ('[ssh]\nlimit_loopback = "maybe"',
     "ssh.limit_loopback: must be true or false (got maybe)"),
    ('[registration]\nmode = "maybe"',
     "registration.mode: choose one of: closed, invite, open (got maybe)"),
    ('[registration]\nrole = "owner"',
     "registration.role: choose one of: admin, member, guest (got owner)"),
    ("[limits]\nline_bytes = 1", "limits.line_bytes: must be at least 256 (got 1)"),
    ('[log]\nlevel = "loud"',
     "log.level: choose one of: debug, info, warning, error (got loud)"),
    (A_MODEL, "models 1 (qwen): kind is missing"),
    (A_MODEL + 'kind = "ollama"\nmodel = "m"\nprice_in = -1',
     "models 1 (qwen): price_in: must be at least 0 (got -1)"),
    (A_MODEL + 'kind = "compatible"\nmodel = "m"',
     "models 1 (qwen): kind compatible needs base_url"),
    ('[[models]]\nname = "Q"\nkind = "ollama"\nmodel = "m"',
     "models 1: name: must be a lower-case letter, then lower-case letters, digits, - or _,"
     " at most 32 characters"),
    ('[[mcp]]\nname = "files"\ncommand = "npx"',
     'mcp 1 (files): command: must be a list, such as ["npx", "-y"]'),
])  # fmt: skip
def test_invalid_setting_is_reported_by_name(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ValidationError):
        load_settings(file)
    with pytest.raises(SystemExit) as caught:
        main(["config", "show", "--config", str(file)])
    assert caught.value.code == 2
    assert f"  {file}: {said}\n" in capsys.readouterr().err


def test_invalid_value_in_a_table_is_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "sk-abcdefghijklmnop1234567"
    file = tmp_path / "bad.toml"
    for text in (
        f'name = "{key}"\nkind = "{key}"\nmodel = "{key}"\ntemperature = "{key}"',
        f'name = "hidden"\nkind = "ollama"\nmodel = "m"\nkey_env = "{key}"\nprice_in = "{key}"',
    ):
        file.write_text(f"[[models]]\n{text}\n")
        with pytest.raises(SystemExit):
            main(["config", "show", "--config", str(file)])
        shown = capsys.readouterr().err
        assert "models 1" in shown
        assert key not in shown


@pytest.mark.parametrize(("name", "value", "said"), [
    ("SSHWARMA_FOO", "x", "SSHWARMA_FOO: unknown setting"),
    ("SSHWARMA_FINDING__THRESHOLD", "0.2",
     "SSHWARMA_FINDING__THRESHOLD: unknown setting (did you mean SSHWARMA_SEARCH__THRESHOLD?)"),
    ("SSHWARMA_SSH_LISTEN", "127.0.0.1:1",
     "SSHWARMA_SSH_LISTEN: unknown setting (did you mean SSHWARMA_SSH__LISTEN?)"),
    ("SSHWARMA_SSH__LISSEN", "x",
     "SSHWARMA_SSH__LISSEN: ssh.lissen: unknown setting (did you mean listen?)"),
    ("SSHWARMA_SSH", "x",
     "SSHWARMA_SSH: must be a JSON object; SSHWARMA_SSH__NAME sets one setting"),
    ("SSHWARMA_MODELS", "x", "SSHWARMA_MODELS: must be a JSON list of tables"),
    ("SSHWARMA_MODELS", '[{"name": "a", "model": "m"}]',
     "SSHWARMA_MODELS: models 1: kind is missing"),
])  # fmt: skip
def test_environment_variable_without_a_setting_is_refused(
    name: str, value: str, said: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        main(["config", "show"])
    assert caught.value.code == 2
    assert f"  {said}\n" in capsys.readouterr().err


def test_invalid_environment_variable_is_reported_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSHWARMA_SSH__MAX_PENDING", "many")
    with pytest.raises(SystemExit):
        main(["config", "show"])
    said = "SSHWARMA_SSH__MAX_PENDING: ssh.max_pending: must be a whole number (got many)"
    assert f"  {said}\n" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", "--listen", "nowhere"])
    flag = "ssh.listen: must be HOST:PORT, such as 127.0.0.1:2222 (got nowhere)"
    assert capsys.readouterr().err == f"sshwarma: invalid settings:\n  {flag}\n  {said}\n"


@pytest.mark.parametrize("text", ["motd = ", "[ssh", "\x00", "motd = 1\nmotd = 2"])
def test_invalid_toml_file_is_reported_by_name(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(SystemExit) as caught:
        main(["config", "show", "--config", str(file)])
    assert caught.value.code == 2
    assert str(file) in capsys.readouterr().err


def test_missing_config_file_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=str(EXIT_USAGE)):
        main(["config", "show", "--config", "nowhere.toml"])
    assert "settings file not found: nowhere.toml" in capsys.readouterr().err


def test_config_show_prints_effective_settings_as_toml(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "show", "--config", str(file), "--data-dir", "somewhere"]) == 0
    shown = capsys.readouterr().out
    values = tomllib.loads(shown)
    assert values["data_dir"] == str(tmp_path / "somewhere")
    assert (values["motd"], values["ssh"]["max_pending"]) == ("from the file", 7)
    assert set(values) == set(Settings.model_fields)
    again = tmp_path / "again.toml"
    again.write_text(shown)
    assert load_settings(again) == load_settings(file, data_dir=tmp_path / "somewhere")
    assert main(["config", "show", "--config", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ssh"] == values["ssh"]


def test_settings_are_immutable() -> None:
    with pytest.raises(ValidationError):
        load_settings().ssh.listen = "0.0.0.0:1"


@pytest.mark.parametrize(("text", "parts"), [
    ("127.0.0.1:22", ("127.0.0.1", 22)), ("[::1]:0", ("::1", 0)), ("host:65535", ("host", 65535)),
    (":22", ("", 22)),
])  # fmt: skip
def test_split_address_returns_host_and_port(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:-1", "22"])
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT, such as") as caught:
        split_address(text)
    assert str(caught.value).endswith(f"(got {text or 'nothing'})")


def test_port_over_65535_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the port must be at most 65535 \(got 65536\)$"):
        split_address("host:65536")


def test_is_loopback_recognizes_loopback_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))


def test_config_show_prints_arrays_of_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "models.toml"
    file.write_text(
        "".join(f'[[models]]\nname = "{n}"\nkind = "ollama"\nmodel = "q\\"3"\n' for n in "ab")
    )
    assert main(["config", "show", "--config", str(file), "--data-dir", str(tmp_path)]) == 0
    file.write_text(capsys.readouterr().out)
    assert [model.name for model in load_settings(file).models] == ["a", "b"]
    assert load_settings(file).models[0].model == 'q"3'


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({}, "needs a command or a url"),
        ({"command": ["x"], "url": "https://example.org/mcp"}, "a command or a url, not both"),
        ({"command": ["x"], "headers": {"A": "b"}}, "need a url, not a command"),
        ({"url": "https://example.org/", "env": {"A": "b"}}, "need a command, not a url"),
        ({"url": "ftp://example.org/"}, "must be a URL, such as"),
        ({"url": "https://a:b@example.org/"}, "must not contain a secret"),
        ({"url": "https://example.org/", "headers": {"Authorization": "Bearer x"}}, "looks like"),
        ({"url": "https://example.org/", "headers": {"X-Api-Key": "x"}}, "looks like a secret"),
        ({"command": ["x"], "env": {"GITHUB_TOKEN": "x"}}, "looks like a secret"),
        ({"command": ["x"], "env": {"A": "b\n"}}, "cannot be sent"),
        ({"command": ["x\0"]}, "NUL"),
        ({"command": ["x"], "call_seconds": 0}, "greater than 0"),
    ],
)
def test_invalid_mcp_server_is_refused(entry: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        McpSettings.model_validate({"name": "x", **entry})


def test_mcp_server_names_must_be_unique() -> None:
    one = {"name": "x", "command": ["true"]}
    with pytest.raises(ValidationError, match="two MCP servers have the name"):
        load_settings(mcp=[one, one])
    made = McpSettings.model_validate(
        {"name": "x", "command": ["x"], "env": {"GIT_AUTHOR_NAME": "me", "A_TOKEN": "${T}"}}
    )
    assert made.env["A_TOKEN"] == "${T}"


def test_example_settings_file_loads() -> None:
    example = Path(__file__).parents[2] / "examples" / "sshwarma.toml"
    assert [server.name for server in load_settings(example).mcp] == ["files", "holler"]


def test_each_setting_is_described() -> None:
    def undescribed(model: type[BaseModel], path: str) -> list[str]:
        found = []
        for name, field in model.model_fields.items():
            parts = (field.annotation, *getattr(field.annotation, "__args__", ()))
            inner = [p for p in parts if isinstance(p, type) and issubclass(p, BaseModel)]
            if inner:
                found += undescribed(inner[0], f"{path}{name}.")
            elif not field.description:
                found.append(f"{path}{name}")
        return found

    assert undescribed(Settings, "") == []


@contextmanager
def without_rights() -> Iterator[None]:
    """Root reads every file: it is another user for the block."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_file_that_cannot_be_read_says_by_whom() -> None:
    with TemporaryDirectory() as directory:  # where other users may look
        Path(directory).chmod(0o755)
        file = Path(directory) / "world.toml"
        file.touch(mode=0o200)
        with without_rights():
            reader = name_user(os.geteuid())
            with pytest.raises(InvalidSettingsError) as caught:
                load_settings(file)
    assert str(caught.value) == (
        f"{file} cannot be read by {reader}: it is a file of {name_user(os.geteuid())} with mode"
        " 0200. Give it the group of the server and mode 0640"
    )


def test_settings_of_one_load_are_not_in_another(tmp_path: Path) -> None:
    file = tmp_path / "world.toml"
    file.write_text('motd = "hello"\n')
    assert load_settings(file).motd == "hello"
    assert Settings(data_dir=tmp_path).motd == ""
