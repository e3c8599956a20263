"""Backups that the server makes by itself, and how many of them are kept."""

from __future__ import annotations

import calendar
import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sshwarma.admin.backup import write_backup
from sshwarma.admin.database_copy import check_room, choose_free_name, measure_size
from sshwarma.admin.work_directory import delete_leftovers
from sshwarma.common.units import MIB
from sshwarma.settings import BackupSettings

BACKUPS_DIRECTORY: Final = "backups"
"""In the data directory, unless a setting names another."""

RESERVED_BYTES: Final = 200 * MIB
"""Bytes of the disk that a backup leaves free, so that it does not stop the changes of people."""

OWNER_NAME: Final = ".sshwarma-world"
"""File in a directory of backups that names the data directory of their world."""

_NAME: Final = re.compile(r"world-(\d{4}-\d{2}-\d{2}-\d{6})(?:-(\d+))?\.tar\.gz")
_TIME_FORMAT: Final = "%Y-%m-%d-%H%M%S"


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


def open_directory(directory: Path, data_dir: Path) -> None:
    """Make the directory of the backups of a world, and note there whose they are.

    Raises:
        OSError: if it cannot be made, or has the backups of another world, whose rotation would
            delete these.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.is_relative_to(data_dir):
        return
    note, own = directory / OWNER_NAME, str(data_dir.absolute())
    with contextlib.suppress(FileExistsError), note.open("x", encoding="utf-8") as file:
        file.write(own)
    owner = note.read_text(encoding="utf-8", errors="replace")
    if owner == own:
        return
    if owner and os.path.lexists(owner):
        raise OSError(
            f"{directory} has the backups of the world in {owner}. Choose another directory in"
            f" backup.directory, or delete {note}."
        )
    note.write_text(own, encoding="utf-8")  # the world has moved


def list_backups(directory: Path, now: float) -> list[Path]:
    """Return the backups in a directory that the server made, the oldest first.

    Their names have their times; those of files change when they are copied. A time after `now` is
    of a clock that was wrong, and such a backup is older than what the clock says now.
    """
    if not directory.is_dir():
        return []

    found = ((_parse_name(path), path) for path in directory.iterdir())
    backups = [(parsed[0] <= now, *parsed, path) for parsed, path in found if parsed is not None]
    return [path for *_, path in sorted(backups)]


def find_newest_time(directory: Path, now: float) -> float | None:
    """Return when the newest backup was made, in seconds since 1970, or None."""
    backups = list_backups(directory, now)
    newest = _parse_name(backups[-1]) if backups else None
    return newest[0] if newest is not None and newest[0] <= now else None


def make_backup(
    database: Path, directory: Path, keep: int, now: float, check: Callable[[], None]
) -> ScheduledBackup:
    """Make a backup, then delete the oldest others that are more than `keep`.

    Args:
        database: of the world.
        directory: of its backups.
        keep: number of backups that may stay.
        now: its time, in seconds since 1970.
        check: called again and again; what it raises ends the backup, of which nothing is left.

    Raises:
        DamagedDatabaseError: if the database is damaged; then no other is deleted.
        OSError: if it cannot be written, or would leave the disk nearly full; then no other is
            deleted.
    """
    delete_leftovers(database.parent)  # of `backup -`, which works there
    # The copy and its archive, which is smaller, stand side by side for a moment.
    check_room(directory, "A backup", 2 * measure_size(database) + RESERVED_BYTES)
    name = f"world-{time.strftime(_TIME_FORMAT, time.gmtime(now))}.tar.gz"
    path = choose_free_name(directory / name)
    write_backup(database, path, check)
    others = [other for other in list_backups(directory, now) if other != path]
    deleted = others[: max(0, len(others) + 1 - keep)]
    for old in deleted:
        old.unlink()
    return ScheduledBackup(path, path.stat().st_size, tuple(old.name for old in deleted))


def _parse_name(path: Path) -> tuple[float, int] | None:
    """Return the time of a backup, and its number in that second; None for others."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    try:
        moment = calendar.timegm(time.strptime(found[1], _TIME_FORMAT))
    except ValueError:  # no such day
        return None
    return float(moment), int(found[2] or 1)
