"""Worlds whose database is gone: what is left of them, and how to get them back."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import Final

from sshwarma.admin.backup_names import BACKUPS_DIRECTORY, COPY_TIME, parse_backup_name
from sshwarma.admin.data_dir_lock import is_served
from sshwarma.admin.data_dir_modes import LOG_SUFFIXES
from sshwarma.common.shorten import join_with_rest
from sshwarma.settings import BLOBS_DIRECTORY
from sshwarma.world.move_mark import read_file_mark

_COPY_NAME: Final = re.compile(r"world-(?:before|replaced|rescued)-([0-9-]*?)(?:-(\d{1,3}))?\.db")
"""Of a copy that an upgrade or a restore kept: its schema or time, and its number."""


_MAX_NAMED_TRACES: Final = 4
"""Files that a message names."""


class LostWorldError(OSError):
    """A database that is gone, of which something is left.

    Attributes:
        finding: what is there, without a final stop.
        remedy: the ways out, for `sshwarma doctor`.
    """

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(f"{finding}. {remedy[0].upper()}{remedy[1:]}.")
        self.finding = finding
        self.remedy = remedy


def find_traces_of_world(database: Path) -> list[Path]:
    """Return what a world leaves beside its database, the best to restore first.

    Backups, and what a server saved of a lost database, are ordered by their names, and come
    before copies of older schemas and of worlds that were replaced. What a log
    holds cannot be restored alone.
    """
    data_dir = database.parent
    return [
        *sorted(
            [*_find_backups(data_dir), *data_dir.glob("world-rescued-*.db")],
            key=_order_backup,
            reverse=True,
        ),
        *sorted(data_dir.glob("world-before-*.db"), key=_order_copy, reverse=True),
        *sorted(data_dir.glob("world-replaced-*.db"), key=_order_copy, reverse=True),
        *(
            path
            for suffix in LOG_SUFFIXES
            for name in (f"{database.name}{suffix}", f"world-replaced-*.db{suffix}")
            for path in sorted(data_dir.glob(name), reverse=True)
        ),
    ]


class HeldWorldError(LostWorldError):
    """A database that is gone, and that a running server still has."""


def check_no_server_holds_it(database: Path) -> None:
    """Check that no running server has a database which is gone.

    Raises:
        HeldWorldError: with how to save it.
    """
    data_dir = database.parent
    if database.exists() or read_file_mark(database) is not None or not is_served(data_dir):
        return
    words = ["sshwarma", "backup", "FILE", "--data-dir", str(data_dir)]
    raise HeldWorldError(
        f"{database} is gone, but the server that runs on {data_dir} still has its file open, with"
        " all that was said: do not stop it",
        f"if the file was moved, move it back. Else save the world first: {shlex.join(words)}",
    )


def check_no_world_was_lost(database: Path) -> None:
    """Check that a new world does not take the place of one whose database is gone.

    Raises:
        LostWorldError: with what is left of it, and both ways out.
    """
    if database.exists():
        return
    if database.is_symlink():
        raise LostWorldError(
            f"{database} is a link to {database.readlink()}, which does not exist",
            "mount its disk. For a new world, remove the link",
        )
    if not (traces := find_traces_of_world(database)):
        _check_no_blobs(database)
        return
    words = ["sshwarma", "restore", str(traces[0]), "--data-dir", str(database.parent)]
    is_log = traces[0].name.endswith(LOG_SUFFIXES)
    restored = "a backup" if is_log else f"it: {shlex.join(words)}"
    logs = [database.with_name(f"{database.name}{suffix}") for suffix in LOG_SUFFIXES]
    beside = next((f", beside {log.name}, which belongs to it" for log in logs if log.exists()), "")
    left = join_with_rest([path.name for path in traces], _MAX_NAMED_TRACES)
    future = [path.name for path in _find_backups(database.parent) if not _order_backup(path)[0]]
    note = f" The date of {future[0]} is in the future: it may not be the newest." if future else ""
    raise LostWorldError(
        f"{database} is gone, and {traces[0]} is of the world that was there",
        f"if the database was moved, move it back{beside}. Else restore {restored}.{note}"
        f" For a new world, move away what is left: {left}",
    )


def _check_no_blobs(database: Path) -> None:
    """Refuse a new world beside contents of files, which may be the only ones.

    Raises:
        LostWorldError: with what to do.
    """
    blobs = database.with_name(BLOBS_DIRECTORY)
    if any(blobs.glob("??/*")):
        raise LostWorldError(
            f"{database} is gone, and {blobs} has files of the world that was there",
            "restore a backup of it. For a new world, move it away",
        )


def _find_backups(data_dir: Path) -> list[Path]:
    paths = (data_dir / BACKUPS_DIRECTORY).glob("world-*.tar.gz")
    return [path for path in paths if parse_backup_name(path) is not None]


def _order_backup(path: Path) -> tuple[bool, float, int]:
    """Order backups by their times; first those of a clock that was wrong."""
    if path.suffix == ".db":
        stamp, number = _order_copy(path)
        made_at = _parse_time(stamp)
    else:
        name = parse_backup_name(path)
        made_at, number = (name.made_at, name.number) if name is not None else (0.0, 0)
    return made_at <= time.time(), made_at, number


def _parse_time(stamp: str) -> float:
    """Return the time in the name of a copy, in seconds since 1970; 0 without one."""
    try:
        return time.mktime(time.strptime(stamp, COPY_TIME))
    except (ValueError, OverflowError):
        return 0.0


def _order_copy(path: Path) -> tuple[str, int]:
    """Order copies by their schema or time, and by the number of a later one."""
    found = _COPY_NAME.fullmatch(path.name)
    return (found[1], int(found[2] or 1)) if found else ("", 0)
