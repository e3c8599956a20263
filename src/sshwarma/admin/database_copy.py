"""Copies of a database, consistent also while a server writes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from sshwarma.world.migrate import DamagedDatabaseError, describe_damage


def choose_free_name(path: Path) -> Path:
    """Return the path, with a number before its ending if that file exists already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def give_name(file: Path, name: Path) -> None:
    """Give a complete file its name; replace nothing, also without hard links.

    Raises:
        FileExistsError: if a file has that name.
    """
    try:
        os.link(file, name)
    except FileExistsError:
        raise
    except OSError:  # such as a memory stick
        if name.exists():
            raise FileExistsError(f"{name} already exists. Choose another.") from None
        file.rename(name)


def find_mount_point(path: Path) -> Path:
    """Return where the file system of a path is mounted."""
    folders = path.absolute().parents
    return next((folder for folder in folders if folder.is_mount()), folders[-1])


def copy_database(database: Path, to: Path) -> None:
    """Copy a database into a new file, which only this user can read.

    The file gets its name when it is complete.

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
            source.backup(target)
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
