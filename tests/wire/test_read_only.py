"""Data directories on a read-only file system, as after a fault of a disk."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.common.os_errors import describe_os_error
from support.driver import Server
from support.driver.fixtures import homes
from support.read_only import read_only

READ_ONLY = "is read-only. Mount it writable, or choose another place"
SERVE = ("serve", "--listen", "127.0.0.1:0", "--http", "off")


@pytest.fixture
def killed_server() -> Iterator[Server]:
    """A server that was killed after a change, whose data directory became read-only."""
    with homes() as home:
        server = Server(home())
        server.person("carol")
        server.kill()
        with read_only(server.data_dir) as is_mounted:
            if not is_mounted:
                pytest.skip("no file system can be mounted here")
            yield server


def test_commands_say_that_the_file_system_is_read_only(killed_server: Server) -> None:
    for words in (SERVE, ("keys", "list"), ("audit",), ("host-key", "next"), ("agents", "list")):
        refused = killed_server.cli(*words)
        last = refused.stderr.splitlines()[-1]
        assert refused.returncode == 1
        assert READ_ONLY in last, (words, refused.stderr)
        assert "Traceback" not in refused.stderr


def test_doctor_and_host_key_read_from_it(killed_server: Server) -> None:
    checked = killed_server.cli("doctor")
    assert checked.returncode == 1
    found = f"FAIL  data directory: the file system of {killed_server.data_dir} is read-only"
    assert found in checked.stdout, checked.stderr
    assert "mount it writable" in checked.stdout
    assert killed_server.cli("host-key", "show").stdout.startswith("In use: SHA256:")


@pytest.mark.parametrize("left", ["log", "log without its index"])
@pytest.mark.sqlite
def test_backup_has_what_the_log_holds(left: str, tmp_path: Path) -> None:
    """SQLite cannot open a log without its index there."""
    with homes() as home:
        server = Server(home())
        server.person("carol")
        server.kill()
        if left != "log":
            (server.data_dir / "world.db-shm").unlink()
        with read_only(server.data_dir) as is_mounted:
            if not is_mounted:
                pytest.skip("no file system can be mounted here")
            archive = tmp_path / "world.tar.gz"
            made = server.cli("backup", str(archive))
            assert made.returncode == 0, made.stderr
            assert "The audit has no row of this command" in made.stderr
        server.data_dir = tmp_path / "restored"
        assert server.cli("restore", str(archive)).returncode == 0
        assert "carol" in server.cli("keys", "list").stdout


def test_read_only_file_system_is_described_without_its_number() -> None:
    error = OSError(errno.EROFS, "Read-only file system", "/srv/world/sshwarma.lock")
    assert describe_os_error(error).startswith(
        "The file system of /srv/world/sshwarma.lock is read-only. Mount it writable"
    )
