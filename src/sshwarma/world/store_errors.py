"""What people read when SQLite refuses a read or a change."""

from __future__ import annotations

import sqlite3
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from sshwarma.world.errors import Unavailable

log = structlog.get_logger(__name__)

DAMAGE_CODES: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
DAMAGE_HINT: Final = (
    "On the server's machine, sshwarma doctor shows the damage, and sshwarma restore FILE --force"
    " replaces the world with a backup."
)

FULL_DISK: Final = "The disk is full. Nothing was stored."

DISK_HINT: Final = "On the server's machine, sshwarma doctor checks its disk."


class FullDiskError(Unavailable):
    """A change was not stored, because the disk is full."""


def find_sqlite_error(error: BaseException | None) -> sqlite3.Error | None:
    """Return SQLite's own error, which SQLAlchemy's and ours wrap; None for others."""
    while error is not None and not isinstance(error, sqlite3.Error):
        error = error.orig if isinstance(error, DBAPIError) else error.__cause__
    return error


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite has found, by an error, that the file is damaged."""
    code = getattr(find_sqlite_error(error), "sqlite_errorname", "")
    return str(code).startswith(DAMAGE_CODES)


def describe_write_error(error: sqlite3.Error | None) -> Unavailable:
    """Return the refusal of a change, by SQLite's result code.

    SQLite's own text may hold users' words.
    """
    code = getattr(error, "sqlite_errorname", "")  # errors of the sqlite3 module itself have none
    if code == "SQLITE_FULL":
        return FullDiskError(
            FULL_DISK,
            hint="Reading still works. Writing works again when there is room.",
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unavailable(
            "Another program locks the database. Nothing was stored.",
            hint="Try again when that program has ended.",
        )
    if code.startswith("SQLITE_READONLY"):
        return Unavailable("The database is read-only. Nothing was stored.", hint=DISK_HINT)
    if code.startswith(DAMAGE_CODES):
        return Unavailable("The database is damaged. Nothing was stored.", hint=DAMAGE_HINT)
    return Unavailable("The database could not be written. Nothing was stored.", hint=DISK_HINT)


def describe_read_error(error: DBAPIError) -> Exception:
    """Return the refusal of a read; the error itself if it is one of the program."""
    code = getattr(error.orig, "sqlite_errorname", "")
    if code.startswith(DAMAGE_CODES):
        log.error("a read failed", error=str(error.orig))
        return Unavailable("The database is damaged.", hint=DAMAGE_HINT)
    if isinstance(error.orig, sqlite3.OperationalError):
        log.error("a read failed", error=str(error.orig))
        return Unavailable("The database could not be read.")
    return error
