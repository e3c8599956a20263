"""Backups that the server makes by itself, and how many of them are kept."""

from __future__ import annotations

import calendar
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sshwarma.admin.backup import WORK_PREFIX, write_backup
from sshwarma.admin.database_copy import check_room, choose_free_name, measure_size
from sshwarma.common.units import DAY_SECONDS, MIB
from sshwarma.settings import BackupSettings

BACKUPS_DIRECTORY: Final = "backups"
"""In the data directory, unless a setting names another."""

RESERVED_BYTES: Final = 200 * MIB
"""Bytes of the disk that a backup leaves free, so that it does not stop the changes of people."""

LEFTOVER_SECONDS: Final = DAY_SECONDS
"""Age at which the work directory of a backup belongs to none that still runs."""

_NAME_FORMAT: Final = "world-%Y-%m-%d-%H%M%S"
_NAME: Final = re.compile(r"(world-\d{4}-\d{2}-\d{2}-\d{6})(?:-(\d+))?\.tar\.gz")


@dataclass(frozen=True, slots=True)
class ScheduledBackup:
    """A backup that was made.

    Attributes:
        path: its file.
        size: its bytes.
        deleted: the names of older ones that were deleted.
    """

    path: Path
    size: int
    deleted: tuple[str, ...]


def choose_directory(data_dir: Path, settings: BackupSettings) -> Path:
    """Return the directory of the backups that the server makes."""
    return settings.directory or data_dir / BACKUPS_DIRECTORY


def list_backups(directory: Path, now: float) -> list[Path]:
    """Return the backups that the server made until now, the oldest first.

    Their time is that of their names: copying a file changes that of the file. Those of a time to
    come, made while the clock was wrong, are not counted and not deleted before it.
    """
    if not directory.is_dir():
        return []
    found = [(_read_time(path.name), path) for path in directory.iterdir()]
    dated = sorted((made, path) for made, path in found if made is not None)
    return [path for (moment, _), path in dated if moment <= now]


def find_newest_time(directory: Path, now: float) -> float | None:
    """Return when the newest backup was made, in seconds since 1970, or None."""
    backups = list_backups(directory, now)
    made = _read_time(backups[-1].name) if backups else None
    return made[0] if made is not None else None


def _read_time(name: str) -> tuple[float, int] | None:
    """Return the time in the name of a backup, and its number in that second."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        made = calendar.timegm(time.strptime(match[1], _NAME_FORMAT))
    except ValueError:  # such as the 31st of February
        return None
    return made, int(match[2] or 1)


def make_backup(
    database: Path, directory: Path, keep: int, now: float, check: Callable[[], None]
) -> ScheduledBackup:
    """Make a backup, then delete the oldest ones that are more than `keep`.

    Args:
        database: of the world.
        directory: created if missing.
        keep: number of backups that may stay.
        now: the time, in seconds since 1970.
        check: called again and again; what it raises ends the backup, of which nothing is left.

    Raises:
        DamagedDatabaseError: if the database is damaged; then no other backup is deleted.
        OSError: if it cannot be written, or would leave the disk nearly full; likewise.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in {directory, database.parent}:  # `backup -` works in the latter
        _delete_leftovers(place)
    # The copy and its archive, which is smaller, stand side by side for a moment.
    check_room(directory, "A backup", 2 * measure_size(database) + RESERVED_BYTES)
    name = time.strftime(f"{_NAME_FORMAT}.tar.gz", time.gmtime(now))
    path = choose_free_name(directory / name)
    write_backup(database, path, check)
    deleted = list_backups(directory, now)[:-keep]
    for old in deleted:
        old.unlink()
    return ScheduledBackup(path, path.stat().st_size, tuple(old.name for old in deleted))


def _delete_leftovers(directory: Path) -> None:
    """Delete what a backup left behind when its process was killed."""
    for path in directory.glob(f"{WORK_PREFIX}*"):
        if (
            path.is_dir()
            and not path.is_symlink()
            and path.stat().st_mtime < time.time() - LEFTOVER_SECONDS
        ):
            shutil.rmtree(path)
