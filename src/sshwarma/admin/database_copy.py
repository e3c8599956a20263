"""Copies of a database, consistent also while a server writes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sshwarma.admin.data_dir_modes import DATABASE_SUFFIXES, LOG_SUFFIXES
from sshwarma.admin.work_directory import make_work_directory
from sshwarma.common.files import is_on_read_only_disk, store_on_disk
from sshwarma.common.limits import MIN_WRITABLE_BYTES
from sshwarma.common.read_only_database import opened_read_only
from sshwarma.common.units import MIB
from sshwarma.world.interrupted_change import undo_interrupted_change
from sshwarma.world.migrate import DamagedDatabaseError, describe_damage

PAGES_PER_STEP: Final = 2_000
"""Pages that are copied between two calls of `check`: some milliseconds."""

INSTRUCTIONS_PER_CHECK: Final = 100_000
"""Instructions of SQLite between two calls of `check`: some milliseconds."""

HEADER_BYTES: Final = 100
COPY_FIELDS: Final = ((18, 20), (24, 28), (40, 44), (92, 100))
"""Of SQLite's header, what a copy changes: the journal mode, counters, and who changed it last."""


_PRIMARY_CODE: Final = 0xFF
"""The bits of an error of SQLite that are without its details."""

_CANNOT_OPEN: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})

_CANNOT_MAKE_SHARED_MEMORY: Final = frozenset(
    {sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE}
)
"""What SQLite says on a full disk, if no process has the database open."""


def no_check() -> None:
    """Check nothing."""


def choose_free_name(path: Path) -> Path:
    """Return the path, with a number before its endings if that file exists already.

    A name is not free either if the log of a database that had it is there: SQLite would take it
    for that of the next one.
    """
    number, free = 1, path
    while any(os.path.lexists(f"{free}{suffix}") for suffix in DATABASE_SUFFIXES):
        number += 1
        stem, dot, endings = path.name.partition(".")
        free = path.with_name(f"{stem}-{number}{dot}{endings}")
    return free


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def measure_size(database: Path) -> int:
    """Return the bytes of a database, with what its log holds."""
    size = database.stat().st_size
    with contextlib.suppress(FileNotFoundError):
        size += database.with_name(f"{database.name}-wal").stat().st_size
    return size


def empty_log(database: Path) -> bool:
    """Write what the log of a database holds into its file.

    Returns:
        Whether the file has all of it: not if another process reads what the log holds.

    Raises:
        sqlite3.DatabaseError: if it is damaged, or the disk is full.
    """
    with contextlib.closing(sqlite3.connect(database, timeout=0)) as opened:
        is_busy, _, _ = opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy


def is_same_content(database: Path, copy: Path) -> bool:
    """Return whether a copy has what a database has, whose log is empty."""
    if database.stat().st_size != copy.stat().st_size:
        return False
    with database.open("rb") as one, copy.open("rb") as other:
        if _mask_header(one.read(HEADER_BYTES)) != _mask_header(other.read(HEADER_BYTES)):
            return False
        while block := one.read(MIB):
            if block != other.read(MIB):
                return False
    return True


def _mask_header(header: bytes) -> bytes:
    """Return the header of a database without what a copy changes in it."""
    masked = bytearray(header)
    for start, end in COPY_FIELDS:
        masked[start:end] = bytes(end - start)
    return bytes(masked)


def check_room(directory: Path, purpose: str, needed: int) -> None:
    """Check that a disk has room for some bytes.

    Raises:
        OSError: if it has not, with both sizes; `purpose` is its subject.
    """
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise OSError(
            f"{purpose} needs {needed // MIB + 1} MiB, and {free // MIB} MiB are free in"
            f" {directory}. Nothing was changed."
        )


def find_mount_point(path: Path) -> Path:
    """Return where the file system of a path is mounted."""
    folders = path.absolute().parents
    return next((folder for folder in folders if folder.is_mount()), folders[-1])


def copy_database(database: Path, to: Path, check: Callable[[], None] = no_check) -> None:
    """Copy a database into a new file, which only this user can read.

    The file gets its name when it is complete.

    Args:
        database: may be written to meanwhile; the copy is of the moment at which it began.
        to: the new file.
        check: called again and again; what it raises ends the copy, of which nothing is left.

    Raises:
        DamagedDatabaseError: if the database is damaged.
        FileExistsError: if `to` exists.
        OSError: if it cannot be written, with a full disk too; then nothing is left of it.
    """
    if to.exists():
        raise FileExistsError(f"{to} already exists. Choose another.")
    with make_work_directory(to.parent) as work:
        part = work / to.name
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            _copy_pages(_find_readable(database, work), part, check)
        except sqlite3.OperationalError as error:
            reason = str(error)
            if is_disk_full(error, to.parent):
                place = find_mount_point(to)
                reason = f"the disk at {place} is full. Make room, or choose another place"
            raise OSError(f"{database} was not copied: {reason}.") from error
        except sqlite3.DatabaseError as error:
            raise DamagedDatabaseError(describe_damage(database, error)) from error
        store_on_disk(part)
        part.rename(to)
    store_on_disk(to.parent)


def check_pages(database: Path, check: Callable[[], None] = no_check) -> str:
    """Return `ok`, or the first damage that SQLite finds in an unused database.

    Args:
        database: its file.
        check: called again and again; what it raises ends the search.

    Raises:
        sqlite3.DatabaseError: if the damage is such that SQLite cannot read on.
    """
    refusals: list[BaseException] = []

    def is_refused() -> bool:
        try:
            check()
        except BaseException as error:  # noqa: BLE001 - raised below: SQLite would swallow it
            refusals.append(error)
        return bool(refusals)

    try:
        with contextlib.closing(sqlite3.connect(database)) as opened:
            opened.set_progress_handler(is_refused, INSTRUCTIONS_PER_CHECK)
            return str(opened.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.DatabaseError:
        if refusals:
            raise refusals[0] from None
        raise


def _find_readable(database: Path, work: Path) -> Path:
    """Return a database, or a plain copy of its files if SQLite cannot open it.

    SQLite makes files beside one, which a read-only or full disk does not take. While another
    process has the database open, these files are there, and the database itself is read.

    Raises:
        sqlite3.DatabaseError: if the disk is not the reason.
        OSError: if the files cannot be copied.
    """
    try:
        with opened_read_only(database) as opened:
            opened.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        if not _needs_files_beside(error):
            raise
        has_room = shutil.disk_usage(database.parent).free >= MIN_WRITABLE_BYTES
        if has_room and not is_on_read_only_disk(database.parent):
            raise
    else:
        return database
    copy = work / f"files-of-{database.name}"
    for suffix in ("", *LOG_SUFFIXES):
        with contextlib.suppress(FileNotFoundError):  # there is at most one log
            shutil.copyfile(f"{database}{suffix}", f"{copy}{suffix}")
    undo_interrupted_change(copy)
    return copy


def _needs_files_beside(error: sqlite3.OperationalError) -> bool:
    """Return whether SQLite could make no file beside a database.

    Others, such as that it is locked, say nothing of the disk: the database may be in the middle
    of a change, of which a plain copy would have a part.
    """
    code = getattr(error, "sqlite_errorcode", 0)  # those of the module itself have none
    return code in _CANNOT_MAKE_SHARED_MEMORY or code & _PRIMARY_CODE in _CANNOT_OPEN


def _copy_pages(database: Path, part: Path, check: Callable[[], None]) -> None:
    with (
        opened_read_only(database) as source,
        contextlib.closing(sqlite3.connect(part)) as target,
    ):
        # Without this transaction, a copy in steps starts again after each change of others.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(target, pages=PAGES_PER_STEP, progress=lambda *_: check())
        target.execute("PRAGMA journal_mode = DELETE")


def is_disk_full(error: sqlite3.Error, directory: Path) -> bool:
    """Return whether an error of SQLite is that of a full disk.

    Where it could not make a file beside the database, it says "disk I/O error".
    """
    name = getattr(error, "sqlite_errorname", "")  # those of the module itself have none
    if not name.startswith("SQLITE_IOERR"):
        return bool(name == "SQLITE_FULL")
    return shutil.disk_usage(directory).free < MIN_WRITABLE_BYTES
