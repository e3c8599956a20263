"""The lock that keeps a data directory to one process."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO, Final

LOCK_NAME: Final = "sshwarma.lock"


class DataDirInUseError(Exception):
    """Another process uses the data directory."""


def lock_data_dir(data_dir: Path) -> IO[str]:
    """Lock the data directory for this process until the returned file is closed.

    Raises:
        DataDirInUseError: if another process holds it.
    """
    file = (data_dir / LOCK_NAME).open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DataDirInUseError(f"Another sshwarma is using {data_dir}. Stop it first.") from None
    return file
