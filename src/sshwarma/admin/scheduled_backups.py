"""Backups that the server makes by itself, and how many of them are kept."""

from __future__ import annotations

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

_NAME: Final = re.compile(r"world-\d{4}-\d{2}-\d{2}-\d{6}(-\d+)?\.tar\.gz")


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


def list_backups(directory: Path) -> list[Path]:
    """Return the backups in a directory that the server made, the oldest first."""
    if not directory.is_dir():
        return []
    return sorted(
        (path for path in directory.iterdir() if _NAME.fullmatch(path.name)),
        key=lambda path: (path.stat().st_mtime, path.name),
    )


def find_newest_time(directory: Path) -> float | None:
    """Return when the newest backup was made, in seconds since 1970, or None."""
    backups = list_backups(directory)
    return backups[-1].stat().st_mtime if backups else None


def make_backup(
    database: Path, directory: Path, keep: int, check: Callable[[], None]
) -> ScheduledBackup:
    """Make a backup, then delete the oldest ones that are more than `keep`.

    Args:
        database: of the world.
        directory: created if missing.
        keep: number of backups that may stay.
        check: called again and again; what it raises ends the backup, of which nothing is left.

    Raises:
        OSError: if it cannot be written, or would leave the disk nearly full; then no other is
            deleted.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in {directory, database.parent}:  # `backup -` works in the latter
        _delete_leftovers(place)
    # The copy and its archive, which is smaller, stand side by side for a moment.
    check_room(directory, "A backup", 2 * measure_size(database) + RESERVED_BYTES)
    name = time.strftime("world-%Y-%m-%d-%H%M%S.tar.gz", time.gmtime())
    path = choose_free_name(directory / name)
    write_backup(database, path, check)
    deleted = list_backups(directory)[:-keep]
    for old in deleted:
        old.unlink()
    return ScheduledBackup(path, path.stat().st_size, tuple(old.name for old in deleted))


def _delete_leftovers(directory: Path) -> None:
    """Delete what a backup left behind when its process was killed."""
    for path in directory.glob(f"{WORK_PREFIX}*"):
        if path.is_dir() and path.stat().st_mtime < time.time() - LEFTOVER_SECONDS:
            shutil.rmtree(path)
