"""The lock of a data directory, on the directory and on a file in it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from sshwarma.admin import data_dir_lock
from sshwarma.common.files import NamedFile


def test_data_dir_lock_allows_one_process(tmp_path: Path) -> None:
    with (
        data_dir_lock.lock_data_dir(tmp_path),
        pytest.raises(
            data_dir_lock.DataDirInUseError,
            match=rf"^Another sshwarma command, or a server .*, is using {tmp_path}\.",
        ),
    ):
        data_dir_lock.lock_data_dir(tmp_path)
    data_dir_lock.lock_data_dir(tmp_path).close()


def test_deleted_lock_file_leaves_the_directory_locked(tmp_path: Path) -> None:
    with data_dir_lock.lock_data_dir(tmp_path) as lock:
        (tmp_path / data_dir_lock.LOCK_NAME).unlink()
        assert data_dir_lock.is_in_use(tmp_path)
        with pytest.raises(data_dir_lock.DataDirInUseError, match="Stop it first"):
            data_dir_lock.lock_data_dir(tmp_path)
        assert lock.replace_file()
        assert not lock.replace_file()
    assert not data_dir_lock.is_in_use(tmp_path)


def test_open_file_is_lost_also_if_another_had_its_name_before(tmp_path: Path) -> None:
    """The file that is open decides, and not the one that has the name."""
    path = tmp_path / "file"
    path.touch()
    with path.open() as file:
        path.rename(tmp_path / "moved")
        path.touch()
        assert NamedFile(path, file.fileno()).is_lost
        (tmp_path / "moved").replace(path)
        assert not NamedFile(path, file.fileno()).is_lost


def test_lock_of_an_older_version_is_respected(tmp_path: Path) -> None:
    """It is on the file alone."""
    with (tmp_path / data_dir_lock.LOCK_NAME).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert data_dir_lock.is_in_use(tmp_path)
        with pytest.raises(data_dir_lock.DataDirInUseError):
            data_dir_lock.lock_data_dir(tmp_path)
    data_dir_lock.lock_data_dir(tmp_path).close()


def test_file_system_without_directory_locks_has_the_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def refuse_directories(handle: int, kind: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        lock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", refuse_directories)
    with data_dir_lock.lock_data_dir(tmp_path):
        assert data_dir_lock.is_in_use(tmp_path)
        with pytest.raises(data_dir_lock.DataDirInUseError):
            data_dir_lock.lock_data_dir(tmp_path)


def test_directory_that_took_the_place_of_a_locked_one_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with data_dir_lock.lock_data_dir(data) as lock:
        data.rename(tmp_path / "moved")
        data.mkdir()
        assert not lock.is_in_place()
        assert not lock.replace_file()
        assert not list(data.iterdir())
