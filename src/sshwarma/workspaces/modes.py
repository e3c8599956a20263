"""The mode of what is in a folder that programs may be changing."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_OPEN: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC


def open_up(name: str, folder: int) -> None:
    """Let the owner read, write and enter what has a name in an open folder.

    A link stays as it is. By its path, a link that was put there meanwhile would be followed.

    Raises:
        OSError: if it is gone, or the disk fails.
    """
    descriptor = os.open(name, _OPEN, dir_fd=folder)
    try:
        if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
            Path(f"/proc/self/fd/{descriptor}").chmod(stat.S_IRWXU)
    finally:
        os.close(descriptor)
