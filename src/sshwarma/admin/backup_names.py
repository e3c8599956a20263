"""The directory of the server's backups, and their names with world and time.

Every command looks for lost worlds by them, so nothing of backups themselves is imported here.
"""

from __future__ import annotations

import calendar
import re
import time
from pathlib import Path
from typing import Final

from sshwarma.settings import BackupSettings

BACKUPS_DIRECTORY: Final = "backups"
"""In the data directory, unless a setting names another."""

_NAME: Final = re.compile(r"world-([0-9a-z]+)-(\d{4}-\d{2}-\d{2}-\d{6})(?:-(\d+))?\.tar\.gz")
_TIME_FORMAT: Final = "%Y-%m-%d-%H%M%S"


def choose_directory(data_dir: Path, settings: BackupSettings) -> Path:
    """Return the directory of the backups that the server makes."""
    return settings.directory or data_dir / BACKUPS_DIRECTORY


def make_backup_name(world_id: str, now: float) -> str:
    """Return the name of a backup of a world that is made now, in seconds since 1970."""
    return f"world-{world_id}-{time.strftime(_TIME_FORMAT, time.gmtime(now))}.tar.gz"


def parse_backup_name(path: Path) -> tuple[str, float, int] | None:
    """Return the world of a backup, its time, and its number in that second."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    try:
        moment = calendar.timegm(time.strptime(found[2], _TIME_FORMAT))
    except ValueError:  # no such day
        return None
    return found[1], float(moment), int(found[3] or 1)
