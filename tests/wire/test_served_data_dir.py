"""What a running server does when others delete files of its data directory."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.forkserver import SETUP
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
    wait_until(lambda: _is_locked(path))
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


def _is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
