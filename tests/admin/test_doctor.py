"""The doctor: one finding for each thing that can be wrong, and what to do."""

from __future__ import annotations

import functools
import shutil
import socket
import sqlite3
import subprocess
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin import data_dir_lock, doctor, doctor_network
from sshwarma.admin.check_result import CheckResult
from sshwarma.cli.main import main
from sshwarma.settings import Settings, load_settings
from sshwarma.ssh.transport.host_key import HOST_KEY_FILENAME, NEXT_KEY_FILENAME, load_host_key
from support.driver.fixtures import homes
from support.full_disk import filled, small_disk

pytestmark = pytest.mark.process


@pytest.fixture
def data(newborn: Path, tmp_path: Path) -> Path:
    """A data directory with a world that has an owner with a key."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    shutil.copyfile(newborn, path / "world.db")
    with closing(sqlite3.connect(path / "world.db")) as database:
        database.executescript("""
            INSERT INTO things (id, parent_id, kind, name, metadata, created_at, updated_at)
                VALUES ('a', 'agents', 'agent', 'ann', '{"role":"owner"}', 1, 1);
            INSERT INTO agent_keys (fingerprint, agent_id, public_key, created_at)
                VALUES ('SHA256:x', 'a', 'k', 1);
        """)
    return path


def settings(data: Path, **flags: Any) -> Settings:
    listen: dict[str, Any] = {"ssh": {"listen": "127.0.0.1:0"}, "http": {"listen": "off"}}
    return load_settings(**{"data_dir": data, **listen, **flags})


def of(data: Path, what: str, **flags: object) -> CheckResult:
    (found,) = [one for one in doctor.run_checks(settings(data, **flags)) if one.name == what]
    return found


def test_healthy_data_dir_has_only_ok_findings(data: Path) -> None:
    findings = doctor.run_checks(settings(data))
    others = [one for one in findings if one.name != "sandbox"]  # that depends on the machine
    assert all(one.ok and not one.remedy for one in others), findings
    assert {one.name for one in findings} == {
        "settings", "user", "data directory", "disk", "database", "schema", "host key", "server",
        "ssh port", "registration", "owners", "sandbox",
    }  # fmt: skip


def test_checks_pass_and_create_nothing_before_the_first_start(tmp_path: Path) -> None:
    nothing = tmp_path / "none"
    assert all(one.ok for one in doctor.run_checks(settings(nothing)))
    assert not nothing.exists(), "the doctor changes nothing"


def test_data_dir_readable_by_others_fails(data: Path) -> None:
    data.chmod(0o755)
    found = of(data, "data directory")
    assert (found.ok, found.remedy) == (False, f"chmod 700 {data}")


def test_key_of_the_operator_readable_by_others_fails(data: Path) -> None:
    key = data / "operator_ed25519"
    key.touch()
    key.chmod(0o644)
    assert of(data, "operator key").remedy == f"chmod 600 {key}"


def test_settings_file_in_a_home_that_is_closed_is_as_good_as_none(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `sudo -u` with the HOME of another user."""
    exists = Path.exists

    def refuse(self: Path) -> bool:
        if self.name == "sshwarma.toml":
            raise PermissionError(13, "Permission denied", str(self))
        return exists(self)

    monkeypatch.setattr(Path, "exists", refuse)
    assert of(data, "settings").detail.startswith("defaults, no file")


def test_next_host_key_that_cannot_be_read_fails(data: Path) -> None:
    """The server loads both when it starts."""
    load_host_key(data)
    (data / NEXT_KEY_FILENAME).touch(mode=0o600)
    (data / NEXT_KEY_FILENAME).write_text("junk")
    assert not of(data, "host key").ok
    assert NEXT_KEY_FILENAME in of(data, "host key").detail


def test_missing_file_of_a_local_model_fails(data: Path) -> None:
    model = {"name": "m1", "kind": "local", "model": "/nope/model.gguf"}
    assert "/nope/model.gguf" in of(data, "model m1", models=[model]).detail


def test_program_is_looked_for_in_a_directory_that_is_closed(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `sudo -u` in the home directory of another user."""

    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_file", refuse)
    server = {"name": "files", "command": ["npx-of-nobody", "-y"]}
    assert "not found" in of(data, "mcp files", mcp=[server]).detail


def test_host_key_readable_by_others_fails(data: Path) -> None:
    key = data / HOST_KEY_FILENAME
    load_host_key(data)
    key.chmod(0o644)
    assert of(data, "host key").remedy == (
        f"run: chmod 600 {key}. If others may have read it, then use another key: sshwarma host-key"
        " next, and sshwarma host-key switch --now. Clients warn of a changed host key"
    )
    key.chmod(0o600)
    assert of(data, "host key").ok


@pytest.mark.parametrize(("passphrase", "remedy"), [
    (None, "put the right file there, or delete it"),
    ("tea", "remove its passphrase: ssh-keygen -p"),
])  # fmt: skip
def test_host_key_that_the_server_would_refuse_fails(
    data: Path, passphrase: str | None, remedy: str
) -> None:
    from sshwarma.ssh.transport.host_key import HOST_KEY_FILENAME

    key = data / HOST_KEY_FILENAME
    if passphrase:
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(key)]
        subprocess.run(make, check=True)
    else:
        key.write_bytes(b"junk")
        key.chmod(0o600)
    found = of(data, "host key")
    assert not found.ok
    assert "is not a usable private key" in found.detail
    assert found.remedy.startswith(remedy)


def test_disk_that_is_really_full_fails_and_the_checks_go_on(newborn: Path) -> None:
    with homes() as make:
        data = make() / "data"
        with small_disk(data) as is_mounted:
            data.chmod(0o700)
            shutil.copyfile(newborn, data / "world.db")
            with filled(data) if is_mounted else nullcontext():
                assert of(data, "disk").ok is not is_mounted
                found = of(data, "database")
                assert found.ok is not is_mounted
                assert "restore" not in found.remedy
                assert ("the disk is full" in found.detail) is is_mounted
            assert of(data, "database").ok


def test_full_disk_fails(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 2**62)
    assert "make room: at least" in of(data, "disk").remedy


def test_damaged_database_fails(data: Path) -> None:
    (data / "world.db").write_bytes(b"not a database at all" * 100)
    found = of(data, "database")
    assert not found.ok and "restore" in found.remedy


def test_database_that_another_program_locks_is_not_called_damaged(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0))
    with closing(sqlite3.connect(data / "world.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        found = of(data, "database")
    assert not found.ok and "is locked" in found.detail
    assert found.remedy == "end the other program that locks it; then check again"
    assert of(data, "database").ok


def test_database_that_is_gone_fails_with_the_command_once(data: Path) -> None:
    (data / "world.db").rename(data / "world-before-0012.db")
    found = of(data, "database")
    assert (found.ok, found.detail) == (
        False, f"{data}/world.db is gone, and {data}/world-before-0012.db is of the world that was"
        " there",
    )  # fmt: skip
    command = f"sshwarma restore {data}/world-before-0012.db --data-dir {data}"
    assert found.remedy == (
        f"if the database was moved, move it back. Else restore it: {command}. For a new world,"
        " move away what is left: world-before-0012.db"
    )


def test_new_world_beside_backups_elsewhere_is_a_warning(tmp_path: Path) -> None:
    elsewhere, data = tmp_path / "elsewhere", tmp_path / "a world"
    elsewhere.mkdir()
    backup = {"every": "1d", "directory": elsewhere}
    found = of(data, "database", backup=backup)
    assert (found.mark, found.detail) == ("ok", "none yet")
    (elsewhere / "world-1a-2026-01-31-120000.tar.gz").touch()
    found = of(data, "database", backup=backup)
    assert (found.mark, found.detail) == ("warn", f"none yet, and {elsewhere} has backups")
    assert found.remedy.endswith(f"run: sshwarma restore FILE --data-dir '{data}'")


def test_old_schema_passes_and_newer_schema_fails(data: Path) -> None:
    def set_version(version: str) -> None:
        with closing(sqlite3.connect(data / "world.db")) as database:
            database.execute("UPDATE alembic_version SET version_num = ?", (version,))
            database.commit()

    set_version("0001")
    found = of(data, "schema")
    assert found.ok and "0001, the next start migrates it to" in found.detail
    set_version("9999")
    found = of(data, "schema")
    assert not found.ok and "newer sshwarma" in found.detail
    assert found.remedy == "install that version, or restore a backup that this version made"
    copy = data / "world-before-9999.db"
    copy.touch()
    assert f"sshwarma restore {copy} --force" in of(data, "schema").remedy


def test_running_server_is_detected(data: Path) -> None:
    with data_dir_lock.lock_data_dir(data):
        assert of(data, "server").detail == "running"
    assert of(data, "server").detail == "not running"


def test_no_owner_with_a_key_fails(data: Path) -> None:
    with closing(sqlite3.connect(data / "world.db")) as database:
        database.execute("UPDATE agent_keys SET deleted_at = 1")
        database.commit()
    found = of(data, "owners")
    assert not found.ok and "sshwarma recover NAME FILE" in found.remedy


def test_open_registration_is_reported(data: Path) -> None:
    opened = {"registration": {"mode": "open"}}
    assert of(data, "registration", **opened).detail == (
        "open in the settings, listening on 127.0.0.1"
    )
    admins = {"registration": {"mode": "open", "role": "admin"}, "ssh": {"listen": "0.0.0.0:0"}}
    found = of(data, "registration", **admins)
    assert not found.ok and 'role = "member"' in found.remedy
    everywhere = {**opened, "ssh": {"listen": "0.0.0.0:0"}}
    found = of(data, "registration", **everywhere)
    assert "anyone who reaches it may register" in found.detail
    assert (found.ok, found.is_warning, found.mark) == (True, True, "warn")


@pytest.mark.parametrize(("listen", "url", "mark"), [
    ("0.0.0.0:0", "", "warn"), ("0.0.0.0:0", "http://world.example.org", "warn"),
    ("0.0.0.0:0", "https://world.example.org", "ok"),
])  # fmt: skip
def test_http_without_tls_on_a_network_is_a_warning(
    data: Path, listen: str, url: str, mark: str
) -> None:
    found = of(data, "http", http={"listen": listen, "public_url": url})
    assert (found.ok, found.mark) == (True, mark)


def test_server_that_does_not_answer_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_network, "ANSWER_SECONDS", 0.1)
    with homes() as make, closing(socket.socket(socket.AF_UNIX)) as silent:
        data = make()
        silent.bind(str(data / "control.sock"))
        silent.listen()
        with data_dir_lock.lock_data_dir(data):
            found = of(data, "server")
    assert not found.ok
    assert found.detail == "The server did not answer within 0.1 s."
    assert "restart it" in found.remedy


MODEL = {"name": "qwen", "kind": "compatible", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(("changes", "detail"), [
    ({}, "m"),
    ({"price_in": 1}, "one of price_in and price_out is missing"),
    ({"price_out": 1, "turn_cost": 1}, "one of price_in and price_out is missing"),
    ({"turn_cost": 1}, "its price is unknown, so turn_cost cannot be enforced"),
    ({"turn_cost": 1, "price_in": 1, "price_out": 2}, "m"),
    ({"key_file": "/nosuch"}, "cannot read the file /nosuch: No such file or directory"),
    ({"key_file": "/"}, "cannot read the file /: it is not a file"),
    ({"key_env": "NOT_SET"}, "no key in the environment variable NOT_SET"),
    ({"kind": "anthropic"}, "no key in the environment variable ANTHROPIC_API_KEY"),
    ({"name": "system"}, "system is a reserved name."),
])  # fmt: skip
def test_model_settings_are_checked(
    data: Path, changes: dict[str, Any], detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    model = MODEL | changes
    found = of(data, f"model {model['name']}", models=[model])
    assert found.detail == detail
    assert found.ok == (detail == "m") == (not found.remedy)


@pytest.mark.parametrize(("name", "detail"), [
    ("files", "true"), ("sshwarma", "sshwarma is a reserved name."),
    ("qwen", "a model has the same name"),
])  # fmt: skip
def test_mcp_server_with_a_name_in_use_fails(data: Path, name: str, detail: str) -> None:
    found = of(data, f"mcp {name}", models=[MODEL], mcp=[{"name": name, "command": ["true"]}])
    assert found.detail == detail
    assert found.ok == (detail == "true") == (not found.remedy)


@pytest.mark.parametrize(("changes", "detail", "remedy"), [
    ({"command": ["nosuch-program"]}, "program nosuch-program not found", "install it"),
    ({"command": ["FILE"]}, "FILE is not executable", "chmod +x "),
    ({"command": ["SCRIPT"]}, "SCRIPT needs node99, which is not found", "install node99"),
    ({"env": {"TOKEN": "${NOT_SET_HERE}"}}, "variable NOT_SET_HERE is not set", "set it where"),
    ({"cwd": "/nosuch"}, "the directory /nosuch does not exist", "create it"),
    ({"command": [], "url": "https://example.org/mcp", "headers": {"Authorization": "${NOT_SET}"}},
     "variable NOT_SET is not set", "set it where"),
])  # fmt: skip
def test_programs_and_variables_of_mcp_servers_are_checked(
    data: Path, tmp_path: Path, changes: dict[str, Any], detail: str, remedy: str
) -> None:
    file = tmp_path / "program"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o600)
    entry = {"name": "files", "command": ["true"]} | changes
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env node99\n")
    script.chmod(0o700)
    files = {"FILE": str(file), "SCRIPT": str(script)}
    entry["command"] = [files.get(word, word) for word in entry["command"]]
    found = of(data, "mcp files", mcp=[entry])
    assert not found.ok
    assert detail.replace("FILE", str(file)).replace("SCRIPT", str(script)) in found.detail
    assert found.remedy.startswith(remedy)


def test_settings_file_and_variables_are_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "other.toml"
    file.write_text("")
    monkeypatch.setenv("SSHWARMA_LOG__LEVEL", "debug")
    first = doctor.run_checks(settings(data), file)[0]
    assert first.detail == f"{file}; overridden by SSHWARMA_LOG__LEVEL"


def test_doctor_command_prints_findings_and_exits_1_on_failure(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSHWARMA_SSH__LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("SSHWARMA_HTTP__LISTEN", "off")
    assert main(["doctor", "--data-dir", str(data)]) == 0
    assert "ok    owners: 1 with a key" in capsys.readouterr().out
    data.chmod(0o755)
    assert main(["doctor", "--data-dir", str(data)]) == 1
    assert f"FAIL  data directory: {data}, mode 0755\n      chmod 700" in capsys.readouterr().out
