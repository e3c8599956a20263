"""Backups that the server makes by itself, and how many of them are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sshwarma.admin.backup import write_backup, write_partial_backup
from sshwarma.admin.backup_files import measure_blobs
from sshwarma.admin.backup_names import BackupName, make_backup_name, parse_backup_name
from sshwarma.admin.damaged_contents import DamagedContentsError
from sshwarma.admin.database_copy import check_room, choose_free_name, measure_size
from sshwarma.admin.work_directory import delete_leftovers
from sshwarma.admin.world_place import PostgresWorld, WorldPlace, data_dir_of, read_world
from sshwarma.common.units import MIB

RESERVED_BYTES: Final = 200 * MIB
"""Bytes of the disk that a backup leaves free, so that it does not stop the changes of people."""


def measure_needed_room(world: WorldPlace) -> int:
    """Return the free bytes that a backup needs before it is made.

    The copy and its archive, which is smaller, stand side by side for a moment. That of PostgreSQL
    is compressed, and has no indexes.

    Raises:
        UnreadableWorldError: if the world is on PostgreSQL, and cannot be read.
    """
    if isinstance(world, PostgresWorld):
        query = "SELECT pg_database_size(current_database())"
        size = int(read_world(world, lambda conn: conn.exec_driver_sql(query).scalar_one()))
    else:
        size = 2 * measure_size(world)
    return size + measure_blobs(data_dir_of(world)) + RESERVED_BYTES


@dataclass(frozen=True, slots=True)
class ScheduledBackup:
    """A backup that was made.

    Attributes:
        path: its file.
        size: its bytes.
        deleted: the names of older ones that were deleted.
        left_out: what it lacks, as its manifest says; None if it is complete.
    """

    path: Path
    size: int
    deleted: tuple[str, ...]
    left_out: Mapping[str, Any] | None = None


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
        backups = [
            (name.made_at <= now, name.made_at, name.number, path) for name, path in found if name
        ]
        return [path for *_, path in sorted(backups)]

    def find_newest(self, now: float) -> BackupName | None:
        """Return what the name of the newest backup says, or None."""
        backups = self.list_backups(now)
        newest = self._parse_name(backups[-1]) if backups else None
        return newest if newest is not None and newest.made_at <= now else None

    def make_backup(
        self, world: WorldPlace, keep: int, now: float, check: Callable[[], None]
    ) -> ScheduledBackup:
        """Make a backup, then delete the oldest others that are more than `keep`.

        If contents of files are missing or damaged, it is made without them, and has that in its
        name. It may be for a disk that is not mounted: it takes the place of none that is complete.

        Args:
            world: where it is.
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
        delete_leftovers(data_dir_of(world))  # of `backup -`, which works there
        check_room(self.path, "A backup", measure_needed_room(world))
        path, left_out = self._write(world, now, check)
        others = [other for other in self.list_backups(now) if other != path]
        if left_out is not None:
            others = [other for other in others if not self._is_complete(other)]
        deleted = others[: max(0, len(others) + 1 - keep)]
        for old in deleted:
            old.unlink()
        names = tuple(old.name for old in deleted)
        return ScheduledBackup(path, path.stat().st_size, names, left_out)

    def _write(
        self, world: WorldPlace, now: float, check: Callable[[], None]
    ) -> tuple[Path, Mapping[str, Any] | None]:
        """Write a backup; return its file, and what it lacks if it is not complete."""
        path = choose_free_name(self.path / make_backup_name(self.world_id, now))
        try:
            write_backup(world, path, check)
        except DamagedContentsError as error:
            name = make_backup_name(self.world_id, now, is_complete=False)
            path = choose_free_name(self.path / name)
            manifest = write_partial_backup(world, path, check, error.hashes)
            return path, manifest.get("left_out")
        return path, None

    def _is_complete(self, path: Path) -> bool:
        name = self._parse_name(path)
        return name is not None and name.is_complete

    def _parse_name(self, path: Path) -> BackupName | None:
        """Return what the name of a backup of this world says."""
        name = parse_backup_name(path)
        return name if name is not None and name.world_id == self.world_id else None
