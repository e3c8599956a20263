"""Changes of a database that a killed process has left half written.

Its journal stands beside the database. SQLite takes the change back when it opens the database for
writing. A connection that only reads cannot, and refuses the database.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

from sshwarma.world.migrate import sqlite_error

JOURNAL_SUFFIX: Final = "-journal"


def has_journal(database: Path) -> bool:
    """Return whether a journal stands beside a database that holds something."""
    journal = database.with_name(f"{database.name}{JOURNAL_SUFFIX}")
    try:
        return bool(journal.stat().st_size and database.stat().st_size)
    except FileNotFoundError:
        return False


def undo_interrupted_change(database: Path) -> bool:
    """Take back a change that a killed process has left half written.

    A change of a process that still runs is left alone, as SQLite does.

    Returns:
        Whether a journal was there.

    Raises:
        DamagedDatabaseError: if SQLite cannot read the database, or write to it.
    """
    if not has_journal(database):
        return False  # SQLite would delete the journal of an empty file
    try:
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as opened:
            opened.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.DatabaseError as error:
        raise sqlite_error(database, error) from error
    return True


def is_to_be_undone(error: sqlite3.Error) -> bool:
    """Return whether a reader was refused because a change must be taken back first."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_READONLY_ROLLBACK
