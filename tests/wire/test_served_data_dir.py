"""What a running server does when others delete files of its data directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.forkserver import SETUP
from support.lock_files import is_locked
from support.waiting import wait_until

NO_CHECKS = "import sshwarma.admin.served_data_dir as served\nserved.CHECK_SECONDS = 3600.0"
"""Lets a server look for no deleted files."""


@pytest.fixture
def server() -> Iterator[Server]:
    with homes() as make:
        server = Server(make())
        yield server
        if server.process.poll() is None:
            server.kill()


def test_deleted_lock_file_lets_no_second_process_in(server: Server) -> None:
    (server.data_dir / "sshwarma.lock").unlink()
    using = f"Another sshwarma is using {server.data_dir}. Stop it first."
    serve = ("serve", "--listen", "127.0.0.1:0", "--http", "off")
    for words in (serve, ("migrate",), ("restore", "/dev/null", "--force")):
        (server.data_dir / "sshwarma.lock").unlink(missing_ok=True)
        refused = server.cli(*words)
        assert refused.returncode == 1
        assert using in refused.stderr
    assert "server: running" in server.cli("doctor").stdout


def test_deleted_lock_file_is_made_again(server: Server) -> None:
    path = server.data_dir / "sshwarma.lock"
    path.unlink()
    wait_until(path.exists)
    wait_until(lambda: is_locked(path))
    wait_until(lambda: "the lock file was deleted, and is made again" in server.log())
    assert path.stat().st_mode & 0o777 == 0o600
    assert server.stop() == 0


def test_lost_control_socket_is_one_sentence() -> None:
    """Until it is made again."""
    with homes() as make:
        server = Server(make(), environ={SETUP: NO_CHECKS})
        (server.data_dir / "control.sock").unlink()
        gone = f"A server is running on {server.data_dir}, but its control.sock is gone."
        for words in (("agents", "list"), ("reload",), ("broadcast", "hello"), ("migrate",)):
            refused = server.cli(*words)
            assert refused.returncode == 1
            assert gone in refused.stderr
        checked = server.cli("doctor")
        assert checked.returncode == 1
        assert f"FAIL  server: running, but {server.data_dir}/control.sock" in checked.stdout
        assert server.stop() == 0


def test_deleted_control_socket_is_made_again(server: Server) -> None:
    path = server.data_dir / "control.sock"
    path.unlink()
    wait_until(path.exists)
    wait_until(lambda: "the control socket was deleted, and is made again" in server.log())
    assert server.cli("agents", "list").returncode == 0
    assert "server: running" in server.cli("doctor").stdout
    assert path.stat().st_mode & 0o777 == 0o600
    assert server.stop() == 0
    assert not path.exists()


def test_deleted_host_key_is_written_again(server: Server) -> None:
    server.owner.does("look")  # so that a client knows the key
    path = server.data_dir / "ssh_host_ed25519_key"
    before = server.cli("host-key", "show").stdout
    path.unlink()
    wait_until(path.exists)
    wait_until(lambda: "the host key was deleted, and is written again" in server.log())
    assert server.cli("host-key", "show").stdout == before
    assert server.stop() == 0
    path.unlink()
    for command in (("show",), ("next",), ("switch", "--now")):
        refused = server.cli("host-key", *command)
        assert refused.returncode == 1 and f"{path} is missing: the next start" in refused.stderr
    assert not list(server.data_dir.glob("ssh_host*"))


@pytest.mark.sqlite
def test_deleted_database_is_saved_by_backup_and_at_the_stop(server: Server) -> None:
    server.admit(server.stranger("carol"))
    _delete_database(server)
    wait_until(lambda: "the database was moved or replaced" in server.log())
    server.admit(server.stranger("dave"))
    backup = server.home / "saved.tar.gz"
    saved = server.cli("backup", str(backup))
    assert saved.returncode == 0, saved.stderr
    assert "do not stop it. It has made the copy" in saved.stderr
    assert not list(server.data_dir.glob("world-rescued-*"))
    server.admit(server.stranger("erin"))
    assert server.stop() == 0
    [copy] = server.data_dir.glob("world-rescued-*.db")
    assert "the database was gone, and the world is saved as a copy" in server.log()
    assert str(copy) in server.log()
    assert copy.stat().st_mode & 0o777 == 0o600
    lost = server.cli("serve", "--listen", "127.0.0.1:0", "--http", "off")
    assert f"restore it: sshwarma restore {copy}" in lost.stderr.lower()
    assert {"carol", "dave"} <= _names_after_restore(server, backup)
    assert {"carol", "dave", "erin"} <= _names_after_restore(server, copy)


@pytest.mark.sqlite
def test_commands_say_that_the_server_still_has_a_deleted_database(server: Server) -> None:
    _delete_database(server)
    for words in (("keys", "list"), ("agents", "list"), ("reload",), ("migrate",)):
        refused = server.cli(*words)
        assert refused.returncode == 1
        assert "still has its file open, with all that was said: do not stop it" in refused.stderr
        assert f"sshwarma backup FILE --data-dir {server.data_dir}" in refused.stderr
    checked = server.cli("doctor")
    assert checked.returncode == 1
    assert "FAIL  database: " in checked.stdout and "do not stop it" in checked.stdout
    assert "sshwarma restore" not in checked.stdout


@pytest.mark.sqlite
def test_everything_that_can_be_deleted_at_once_is_said() -> None:
    """No old backup is named, also before anything is made again."""
    with homes() as make:
        server = Server(make(), environ={SETUP: NO_CHECKS})
        _delete_database(server)
        (server.data_dir / "sshwarma.lock").unlink()
        (server.data_dir / "control.sock").unlink()
        for words in (("agents", "list"), ("doctor",)):
            said = server.cli(*words)
            assert said.returncode == 1
            assert "do not stop it" in said.stdout + said.stderr
        refused = server.cli("backup", str(server.home / "b.tar.gz"))
        assert refused.returncode == 1
        assert "its control.sock is gone" in refused.stderr
        assert server.stop() == 0
        assert list(server.data_dir.glob("world-rescued-*.db"))


@pytest.mark.sqlite
def test_database_that_was_moved_has_all_of_its_log_after_the_stop(server: Server) -> None:
    database = server.data_dir / "world.db"
    server.admit(server.stranger("carol"))
    database.rename(database.with_name("moved.db"))
    server.admit(server.stranger("dave"))
    assert server.stop() == 0
    for path in server.data_dir.glob("world.db-*"):
        path.unlink()
    database.with_name("moved.db").rename(database)
    assert {"carol", "dave"} <= _names(server)


@pytest.mark.sqlite
def test_stop_without_a_loss_leaves_no_copy_and_no_log(server: Server) -> None:
    assert server.stop() == 0
    assert not list(server.data_dir.glob("world-rescued-*"))
    assert not list(server.data_dir.glob("world.db-*"))


@pytest.mark.sqlite
def test_directory_that_is_gone_is_said_at_the_stop(server: Server) -> None:
    server.data_dir.rename(server.home / "moved")
    assert server.stop() == 0
    assert "the world is lost with its database" in server.log()


def _delete_database(server: Server) -> None:
    for path in server.data_dir.glob("world.db*"):
        path.unlink()


def _names_after_restore(server: Server, source: Path) -> set[str]:
    restored = server.cli("restore", str(source), "--force")
    assert restored.returncode == 0, restored.stderr
    return _names(server)


def _names(server: Server) -> set[str]:
    listed = server.cli("agents", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    return {agent["name"] for agent in json.loads(listed.stdout)}
