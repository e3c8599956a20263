"""Backups that the server makes by itself, and how many of them are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sshwarma.admin.backup import write_backup
from sshwarma.admin.backup_files import measure_blobs
from sshwarma.admin.backup_names import make_backup_name, parse_backup_name
from sshwarma.admin.database_copy import check_room, choose_free_name, measure_size
from sshwarma.admin.work_directory import delete_leftovers
from sshwarma.common.units import MIB

RESERVED_BYTES: Final = 200 * MIB
"""Bytes of the disk that a backup leaves free, so that it does not stop the changes of people."""


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


@dataclass(frozen=True, slots=True)
class BackupDirectory:
    """The backups of one world, in a directory that others may use, too.

    Nothing in it is trusted but names: what a file of another world or user is called has another
    id, or is taken for an old backup at most, and is deleted and never read.

    Attributes:
        path: the directory.
        world_id: of the world; each backup has it in its name.
    """

    path: Path
    world_id: str

    def list_backups(self, now: float) -> list[Path]:
        """Return the backups of this world that the server made, the oldest first.

        Their names have their times; those of files change when they are copied. A time after `now`
        is of a clock that was wrong, and such a backup is older than what the clock says now.
        """
        if not self.path.is_dir():
            return []
        found = ((self._parse_name(path), path) for path in self.path.iterdir() if path.is_file())
        backups = [(parsed[0] <= now, *parsed, path) for parsed, path in found if parsed]
        return [path for *_, path in sorted(backups)]

    def find_newest_time(self, now: float) -> float | None:
        """Return when the newest backup was made, in seconds since 1970, or None."""
        backups = self.list_backups(now)
        newest = self._parse_name(backups[-1]) if backups else None
        return newest[0] if newest is not None and newest[0] <= now else None

    def make_backup(
        self, database: Path, keep: int, now: float, check: Callable[[], None]
    ) -> ScheduledBackup:
        """Make a backup, then delete the oldest others that are more than `keep`.

        Args:
            database: of the world.
            keep: number of backups that may stay.
            now: its time, in seconds since 1970.
            check: called again and again; what it raises ends the backup, of which nothing is left.

        Raises:
            DamagedDatabaseError: if the database is damaged; then no other is deleted.
            OSError: if it cannot be written, or would leave the disk nearly full; then no other is
                deleted.
        """
        # Without its parents: that of a disk which is not mounted must not be made.
        self.path.mkdir(mode=0o700, exist_ok=True)
        delete_leftovers(database.parent)  # of `backup -`, which works there
        # The copy and its archive, which is smaller, stand side by side for a moment.
        needed = 2 * measure_size(database) + measure_blobs(database.parent) + RESERVED_BYTES
        check_room(self.path, "A backup", needed)
        path = choose_free_name(self.path / make_backup_name(self.world_id, now))
        write_backup(database, path, check)
        others = [other for other in self.list_backups(now) if other != path]
        deleted = others[: max(0, len(others) + 1 - keep)]
        for old in deleted:
            old.unlink()
        return ScheduledBackup(path, path.stat().st_size, tuple(old.name for old in deleted))

    def _parse_name(self, path: Path) -> tuple[float, int] | None:
        """Return the time of a backup of this world, and its number in that second."""
        found = parse_backup_name(path)
        return found[1:] if found is not None and found[0] == self.world_id else None
