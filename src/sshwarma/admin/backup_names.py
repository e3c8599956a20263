"""The directory of the server's backups, and their names with world and time.

Every command looks for lost worlds by them, so nothing of backups themselves is imported here.
"""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sshwarma.settings import BackupSettings

BACKUPS_DIRECTORY: Final = "backups"
"""In the data directory, unless a setting names another."""

COPY_TIME: Final = "%Y%m%d-%H%M%S"
"""The time in the name of a copy of a database, in the time zone of the machine."""

_INCOMPLETE: Final = "-incomplete"
"""In the name of a backup that lacks contents of files, because they are lost."""

_NAME: Final = re.compile(
    rf"world-([0-9a-z]+)-(\d{{4}}-\d{{2}}-\d{{2}}-\d{{6}})({_INCOMPLETE})?(?:-(\d+))?\.tar\.gz"
)
_TIME_FORMAT: Final = "%Y-%m-%d-%H%M%S"


def choose_directory(data_dir: Path, settings: BackupSettings) -> Path:
    """Return the directory of the backups that the server makes."""
    return settings.directory or data_dir / BACKUPS_DIRECTORY


@dataclass(frozen=True, slots=True)
class BackupName:
    """What the name of a backup says.

    Attributes:
        world_id: of its world.
        made_at: in seconds since 1970.
        number: of several in that second.
        is_complete: whether it has all contents of files.
    """

    world_id: str
    made_at: float
    number: int
    is_complete: bool


def make_backup_name(world_id: str, now: float, *, is_complete: bool = True) -> str:
    """Return the name of a backup of a world that is made now, in seconds since 1970."""
    mark = "" if is_complete else _INCOMPLETE
    return f"world-{world_id}-{time.strftime(_TIME_FORMAT, time.gmtime(now))}{mark}.tar.gz"


def parse_backup_name(path: Path) -> BackupName | None:
    """Return what the name of a backup says; None of another file."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    try:
        moment = calendar.timegm(time.strptime(found[2], _TIME_FORMAT))
    except ValueError:  # no such day
        return None
    return BackupName(found[1], float(moment), int(found[4] or 1), found[3] is None)
