"""The lock that keeps a data directory to one process."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import IO, Final

from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.common.reported_error import ReportedError

LOCK_NAME: Final = "sshwarma.lock"

OTHERS: Final = 0o077
"""The bits of a mode for other users: who can read a lock can hold it, too."""


class DataDirInUseError(ReportedError):
    """Another process uses the data directory."""


def lock_data_dir(data_dir: Path) -> IO[str]:
    """Lock the data directory for this process until the returned file is closed.

    Raises:
        ForeignDataDirError: if it belongs to another user; then nothing is touched.
        DataDirInUseError: if another process holds it.
    """
    check_data_dir_owner(data_dir)
    file = (data_dir / LOCK_NAME).open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DataDirInUseError(f"Another sshwarma is using {data_dir}. Stop it first.") from None
    if not os.fstat(file.fileno()).st_nlink:  # a refused restore has just deleted what it made
        file.close()
        raise DataDirInUseError(f"Another sshwarma was using {data_dir}. Try again.")
    mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if mode & OTHERS:  # of a version that did not set its umask
        os.fchmod(file.fileno(), mode & ~OTHERS)
    return file
