"""The check that no other process locks the database, which stops all changes."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sshwarma.admin.check_result import CheckResult
from sshwarma.common.limits import WRITE_CHECK_TIMEOUT_SECONDS

LOOK_SECONDS: Final = 0.05
"""Seconds between two looks at a lock: a change holds it for milliseconds."""

_FLOCK: Final = "hhqqi"
"""The `struct flock` of Linux: type, whence, start, length and process."""

_LOCK_BYTES: Final = (("-shm", 120), ("", 0x40000001))
"""What a writer locks, by the ending of the file: of a database with a write-ahead log, and of one
without. Both are of SQLite's file format."""


def check_write_lock(database: Path) -> Iterator[CheckResult]:
    """Report a process that holds the right to write, and keeps it.

    Nothing is locked for that, so that no change has to wait for the check.
    """
    deadline = time.monotonic() + WRITE_CHECK_TIMEOUT_SECONDS
    while (holder := _find_writer(database)) is not None:
        if time.monotonic() > deadline:
            yield CheckResult(
                "database lock",
                False,
                f"{_name_process(holder)} has locked {database} for"
                f" {WRITE_CHECK_TIMEOUT_SECONDS:g} s and longer: nobody can change the world",
                "wait until it has finished, or end it; if it is the server, look at its disk",
            )
            return
        time.sleep(LOOK_SECONDS)


def _find_writer(database: Path) -> int | None:
    """Return the id of a process that may write now, or None.

    It is 0 for a process of another container, which has none here.
    Closing the files takes this process's own locks away, so nothing else may have them open.
    """
    for ending, byte in _LOCK_BYTES:
        try:
            file = os.open(f"{database}{ending}", os.O_RDONLY)
        except OSError:  # not there, or the check of the database reports it
            continue
        try:
            wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
            kind, _, _, _, process = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, wanted))
        except OSError:  # a file system without locks
            continue
        finally:
            os.close(file)
        if kind != fcntl.F_UNLCK:
            return int(process)
    return None


def _name_process(process: int) -> str:
    """Return the id of a process, with the name of its program if that is known."""
    if not process:
        return "a process outside of this container"
    try:
        name = Path(f"/proc/{process}/comm").read_text("utf-8", errors="replace").strip()
    except OSError:  # it has ended, or there is no /proc
        return f"process {process}"
    return f"process {process} ({name})"
