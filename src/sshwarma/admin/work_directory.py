"""Directories for files that are not complete yet, such as of a backup.

A process that is killed leaves its directory behind. Each is locked while it is used, and the
kernel ends the lock with the process: the next work in the same place deletes what nobody locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WORK_PREFIX: Final = ".sshwarma-work-"
"""How the names of these directories begin."""


@contextlib.contextmanager
def make_work_directory(parent: Path) -> Iterator[Path]:
    """Make a directory that only this user can read, and delete it at the end.

    Leftovers of killed processes in the same place are deleted first.

    Raises:
        OSError: with `parent` as its file, if it cannot be made there.
    """
    delete_leftovers(parent)
    path, handle = _make_locked(parent)
    try:
        yield path
    finally:
        shutil.rmtree(path)
        os.close(handle)


def delete_leftovers(parent: Path) -> None:
    """Delete the work directories of this user that no process uses any more."""
    for path in parent.glob(f"{WORK_PREFIX}*"):
        with contextlib.suppress(OSError):  # a link, or one that is in use
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(handle)


def _make_locked(parent: Path) -> tuple[Path, int]:
    """Make a directory; return it with the descriptor that holds its lock."""
    while True:
        try:
            path = Path(tempfile.mkdtemp(dir=parent, prefix=WORK_PREFIX))
        except OSError as error:  # people know the place, and not the name that we chose
            error.filename = str(parent)
            raise
        with contextlib.suppress(FileNotFoundError):  # taken for a leftover before it was locked
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):  # a file system without locks: nobody else has one
                fcntl.flock(handle, fcntl.LOCK_EX)
            if path.exists():
                return path, handle
            os.close(handle)
