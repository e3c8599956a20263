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

from sshwarma.common.units import MIB
from sshwarma.world.migrate import DamagedDatabaseError, describe_damage

PAGES_PER_STEP: Final = 2_000
"""Pages that are copied between two calls of `check`: some milliseconds."""

STEPS_PER_CHECK: Final = 1_000_000
"""Steps of SQLite's machine between two calls of `check`: some milliseconds."""


def _go_on() -> None:
    """Check nothing."""


def choose_free_name(path: Path) -> Path:
    """Return the path, with a number before its endings if that file exists already."""
    number, free = 1, path
    while free.exists():
        number += 1
        stem, dot, endings = path.name.partition(".")
        free = path.with_name(f"{stem}-{number}{dot}{endings}")
    return free


def flush_file(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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


def copy_database(database: Path, to: Path, check: Callable[[], None] = _go_on) -> None:
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
    part = to.with_name(f".{to.name}.part")
    part.unlink(missing_ok=True)  # left by a copy that was killed
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with (
            contextlib.closing(
                sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
            ) as source,
            contextlib.closing(sqlite3.connect(part)) as target,
        ):
            # Without this transaction, a copy in steps starts again after each change of others.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            source.backup(target, pages=PAGES_PER_STEP, progress=lambda *_: check())
            target.execute("PRAGMA journal_mode = DELETE")
        part.rename(to)
    except sqlite3.OperationalError as error:
        part.unlink()
        reason = str(error)
        if error.sqlite_errorname == "SQLITE_FULL":
            place = find_mount_point(to)
            reason = f"the disk at {place} is full. Make room, or choose another place"
        raise OSError(f"{database} was not copied: {reason}.") from error
    except sqlite3.DatabaseError as error:
        part.unlink()
        raise DamagedDatabaseError(describe_damage(database, error)) from error
    except BaseException:
        part.unlink()
        raise


def check_copy(copy: Path, database: Path, check: Callable[[], None] = _go_on) -> None:
    """Check that a copy is whole: damaged pages are copied like others.

    Args:
        copy: of the database, which nobody uses.
        database: that the error names.
        check: called again and again; what it raises ends this.

    Raises:
        DamagedDatabaseError: with what SQLite found.
    """

    def is_stopped() -> int:
        try:
            check()
        except Exception:  # noqa: BLE001 - raised again below; SQLite would swallow it
            return 1
        return 0

    with contextlib.closing(sqlite3.connect(copy)) as target:
        target.set_progress_handler(is_stopped, STEPS_PER_CHECK)
        try:
            [(verdict,), *_] = target.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.DatabaseError as error:
            check()
            raise DamagedDatabaseError(describe_damage(database, error)) from error
    if verdict != "ok":
        raise DamagedDatabaseError(describe_damage(database, RuntimeError(verdict)))
