"""Locks of data directories."""

from __future__ import annotations

import fcntl
from pathlib import Path


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a data directory."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
