"""Replacement of a world's database by another; the old one is kept beside it.

SQLite finds the log of a database by its name, and takes any log of that name for its own. A log
that comes to stand alone, or beside another database, is lost or damages that. So a database in
use is not replaced, what its log holds is written into it first, and a process that is killed here
leaves the old world with its log or the new one.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import sqlite3
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from sshwarma.admin.data_dir_modes import LOG_SUFFIXES, SHARED_MEMORY_SUFFIX
from sshwarma.admin.database_copy import choose_free_name
from sshwarma.common.files import give_name, store_on_disk
from sshwarma.common.read_only_database import opened_read_only

log = structlog.get_logger(__name__)

DAMAGE_CODES: Final = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)
"""What SQLite says of a file that it cannot read; others say that it can, at another time."""

USE_CODES: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@dataclass(frozen=True, slots=True)
class Kept:
    """The database that was there before, if there was one, and logs without one."""

    database: Path | None
    logs: tuple[Path, ...]


def replace_database(copy: Path, database: Path, work: Path) -> Kept:
    """Give a complete database the name of a world, and keep what has that name now.

    Args:
        copy: the new one, on the same disk and stored there.
        database: of the world; it may be damaged, or be gone and have left its log.
        work: a directory on that disk.

    Raises:
        OSError: if another program uses it, or it cannot be kept; then nothing has changed.
    """
    now = time.strftime("%Y%m%d-%H%M%S")
    kept = choose_free_name(database.with_name(f"world-replaced-{now}.db"))
    if not database.exists():
        result = Kept(None, _rename_logs(database, kept))
        copy.replace(database)
    elif (opened := _open_alone(database)) is not None:
        with contextlib.closing(opened):  # its lock ends when the old one has lost its name
            give_name(database, kept)
            store_on_disk(kept.parent)
            copy.replace(database)
        result = Kept(kept, ())
    else:
        _keep_damaged(database, kept, work)
        copy.replace(database)
        result = Kept(kept, ())
    store_on_disk(database.parent)
    return result


def delete_second_names(database: Path) -> None:
    """Delete the names that a killed restore gave a database, which has kept its own.

    Opened by two names, a database has two logs, and is damaged. Of a log and its copy, the one
    without a database is deleted, too.
    """
    for other in database.parent.glob("world-replaced-*.db"):
        if is_same_file(other, database):
            other.unlink()
            log.warning("a restore was killed, and has replaced nothing", world=str(database))
    for own in _list_logs(database):
        suffix = own.name.removeprefix(database.name)
        for kept in database.parent.glob(f"world-replaced-*.db{suffix}"):
            if filecmp.cmp(own, kept, shallow=False):
                has_database = kept.with_name(kept.name.removesuffix(suffix)).exists()
                if database.exists() and not has_database:
                    kept.unlink()
                elif has_database and not database.exists():
                    own.unlink()
                    break


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two names are those of one file; a link is not what it names."""
    try:
        found = one.lstat()
        return stat.S_ISREG(found.st_mode) and os.path.samestat(found, other.lstat())
    except OSError:
        return False


def _open_alone(database: Path) -> sqlite3.Connection | None:
    """Open a database, without a log beside it, and lock it; None if damaged.

    Raises:
        OSError: if another program uses it, or the disk is full.
    """
    if not database.is_file() or database.stat().st_size == 0:
        return None  # SQLite would delete the log of an empty one
    if _is_unreadable(database):
        return None
    opened = sqlite3.connect(database, timeout=0, isolation_level=None)
    try:
        opened.execute("PRAGMA journal_mode = DELETE")  # writes what the log holds, and deletes it
        opened.execute("BEGIN EXCLUSIVE")
        if opened.execute("PRAGMA journal_mode").fetchone() == ("delete",):
            _delete_logs(database)  # SQLite has read them, and left them empty
            return opened
    except sqlite3.DatabaseError as error:
        opened.close()
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in DAMAGE_CODES:
            return None
        if code not in USE_CODES:
            raise OSError(
                f"What the log of {database} holds was not written into it: {error}. Make room on"
                " its disk, or see to its owner and mode. Nothing was changed."
            ) from error
    opened.close()
    raise OSError(
        f"Another program uses {database}. End it, then restore again. Nothing was changed."
    )


def _is_unreadable(database: Path) -> bool:
    """Return whether SQLite cannot read a database at all; change nothing."""
    with opened_read_only(database, timeout=0) as opened:
        try:
            opened.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError:  # in use, or to be opened by who may write
            return False
        except sqlite3.DatabaseError:
            return True
    return False


def _list_logs(database: Path) -> list[Path]:
    """Return the logs beside a database that hold something."""
    paths = [database.with_name(f"{database.name}{suffix}") for suffix in LOG_SUFFIXES]
    return [path for path in paths if path.exists() and path.stat().st_size]


def _keep_damaged(database: Path, kept: Path, work: Path) -> None:
    """Keep a database that SQLite cannot read with its log, and delete the log.

    Two files cannot be renamed at once. So both are copied, and the copies are complete before the
    log is gone.
    """
    logs = _list_logs(database)
    if logs and database.is_file():
        pairs = [
            (path, kept.with_name(path.name.replace(database.name, kept.name, 1)))
            for path in (*logs, database)
        ]
        for path, _ in pairs:
            shutil.copyfile(path, work / f"kept-{path.name}")
            store_on_disk(work / f"kept-{path.name}")
        for path, name in pairs:
            (work / f"kept-{path.name}").rename(name)
        store_on_disk(kept.parent)
    else:
        give_name(database, kept)
    _delete_logs(database)  # the database keeps its name, so that a start says that it is damaged


def _delete_logs(database: Path) -> None:
    for suffix in (*LOG_SUFFIXES, SHARED_MEMORY_SUFFIX):
        database.with_name(f"{database.name}{suffix}").unlink(missing_ok=True)


def _rename_logs(database: Path, kept: Path) -> tuple[Path, ...]:
    """Keep the logs of a database that is gone, which the new one must not have."""
    names = []
    for path in _list_logs(database):
        names.append(kept.with_name(path.name.replace(database.name, kept.name, 1)))
        path.rename(names[-1])
    _delete_logs(database)
    return tuple(names)
