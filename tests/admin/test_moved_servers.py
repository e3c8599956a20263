"""Directories that were moved under servers, and what only looks so."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sshwarma.admin.data_dir_lock import (
    DataDirInUseError,
    check_no_server_was_moved,
    lock_data_dir,
    warn_of_unproved_server,
)

pytestmark = pytest.mark.process

UNPROVED = "a socket of this path is in use, and is not there"

HOLDER = """
import os, socket, sys
from pathlib import Path
from sshwarma.admin.data_dir_lock import lock_data_dir
data_dir = Path(sys.argv[1])
data_dir.mkdir(exist_ok=True)
with lock_data_dir(data_dir), socket.socket(socket.AF_UNIX) as listener:
    path = str(data_dir / "control.sock")
    listener.bind(path if len(path) < 100 else f"/proc/self/fd/{os.open(data_dir, 0)}/control.sock")
    listener.listen()
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(*command: str) -> Iterator[None]:
    """Another process that holds a lock and listens, until the end of the block."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
        process.communicate("", timeout=30)


@pytest.mark.parametrize("name", ["data", "d" * 110])
def test_moved_directory_of_a_running_process_is_found(tmp_path: Path, name: str) -> None:
    data = tmp_path / name
    with holding(sys.executable, "-c", HOLDER, str(data)):
        check_no_server_was_moved(data)  # it is in its place
        data.rename(tmp_path / "moved")
        with pytest.raises(DataDirInUseError, match="the directory was moved or deleted"):
            check_no_server_was_moved(data)
        (tmp_path / "moved").rename(data)
        check_no_server_was_moved(data)
        data.rename(tmp_path / "moved")
    check_no_server_was_moved(data)  # it has ended


def test_moved_directory_is_found_by_its_path_without_links(tmp_path: Path) -> None:
    data, link = tmp_path / "data", tmp_path / "link"
    data.mkdir()
    link.symlink_to(data)
    with lock_data_dir(link):
        data.rename(tmp_path / "moved")
        for path in (data, link):
            with pytest.raises(DataDirInUseError, match="the directory was moved or deleted"):
                check_no_server_was_moved(path)


def test_socket_that_proves_nothing_is_a_warning(tmp_path: Path) -> None:
    """As of another user, who knows the path of a world that is to be made."""
    with socket.socket(socket.AF_UNIX) as listener, capture_logs() as lines:
        listener.bind(str(tmp_path / "control.sock"))
        listener.listen()
        (tmp_path / "control.sock").unlink()
        check_no_server_was_moved(tmp_path)
        warn_of_unproved_server(tmp_path)
    assert [line["event"] for line in lines] == [UNPROVED]


def test_process_that_has_another_directory_under_the_path_refuses_nothing(
    tmp_path: Path,
) -> None:
    """As one in a container."""
    volumes = tmp_path / "volumes"
    volumes.mkdir()
    script = f'mount -t tmpfs none {volumes} && exec "$@"'
    enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    with holding(*enter, sys.executable, "-c", HOLDER, str(volumes / "data")):
        check_no_server_was_moved(volumes / "data")
