"""What people read when PostgreSQL refuses a read or a change."""

from __future__ import annotations

from typing import Final

import psycopg
import structlog
from psycopg import errors
from sqlalchemy.exc import DBAPIError

from sshwarma.world.errors import Unavailable
from sshwarma.world.store_errors import FullDiskError

log = structlog.get_logger(__name__)

LOST_CLASSES: Final = ("08", "57P", "53300")
"""Beginnings of the codes of a connection that is lost or refused for the moment."""

DAMAGE_CODES: Final = ("XX001", "XX002")

NOT_STORED: Final = "Nothing was stored."

SERVER_HINT: Final = "On the server's machine, sshwarma doctor checks the database."


class UnreachableError(Unavailable):
    """A change was not stored, because the server of the database cannot be reached."""

    def __init__(self) -> None:
        super().__init__(
            f"The database cannot be reached. {NOT_STORED}", hint="Try again in a moment."
        )


class UnknownCommitError(Unavailable):
    """Whether a change was stored is not known; it must not be tried again."""

    def __init__(self) -> None:
        super().__init__(
            "The database did not answer: it is not known whether this was stored.",
            hint="Look before you repeat it.",
        )


def find_postgres_error(error: BaseException | None) -> psycopg.Error | None:
    """Return PostgreSQL's own error, which others may wrap; None for others."""
    while error is not None and not isinstance(error, psycopg.Error):
        error = error.orig if isinstance(error, DBAPIError) else error.__cause__
    return error


def is_lost_connection(error: psycopg.Error) -> bool:
    """Return whether the connection is lost, or refused for the moment."""
    if error.sqlstate is None:  # of the driver itself, or of the network
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(LOST_CLASSES) or isinstance(
        error, errors.IdleInTransactionSessionTimeout
    )


def is_damage(error: BaseException | None) -> bool:
    """Return whether PostgreSQL has found, by an error, that the data are damaged."""
    found = find_postgres_error(error)
    return found is not None and found.sqlstate in DAMAGE_CODES


def describe_write_error(error: BaseException) -> tuple[Unavailable, str, str]:
    """Return the refusal of a change, the event for the log, and its details.

    PostgreSQL's own text may hold users' words: the log gets the code and its name.
    """
    found = find_postgres_error(error)
    detail = type(error).__name__ if found is None else f"{type(found).__name__} {found.sqlstate}"
    event = "the world cannot be written to"
    if found is None:
        return Unavailable(f"The database could not be written. {NOT_STORED}"), event, detail
    if is_lost_connection(found):
        return UnreachableError(), event, detail
    if isinstance(found, errors.DiskFull):
        hint = "Reading still works. Writing works again when there is room."
        refusal = FullDiskError(f"The disk of the database is full. {NOT_STORED}", hint=hint)
        return refusal, event, detail
    if isinstance(found, errors.ReadOnlySqlTransaction):
        message = f"The database is read-only. {NOT_STORED}"
        return Unavailable(message, hint=SERVER_HINT), event, detail
    if isinstance(found, errors.LockNotAvailable | errors.QueryCanceled | errors.DeadlockDetected):
        message = f"Others keep the database busy. {NOT_STORED}"
        return Unavailable(message, hint="Try again in a moment."), event, detail
    if found.sqlstate in DAMAGE_CODES:
        return (
            Unavailable(f"The database is damaged. {NOT_STORED}", hint=SERVER_HINT),
            event,
            detail,
        )
    message = f"The database could not be written. {NOT_STORED}"
    return Unavailable(message, hint=SERVER_HINT), "a commit failed", detail


def describe_unit_error(error: BaseException) -> BaseException:
    """Return the refusal of a unit that the database ended; other errors as they are."""
    if not isinstance(error, DBAPIError | psycopg.Error):
        return error
    found = find_postgres_error(error)
    if isinstance(
        found,
        errors.DiskFull
        | errors.ReadOnlySqlTransaction
        | errors.LockNotAvailable
        | errors.QueryCanceled,
    ):
        log.error("a change was refused", error=type(found).__name__)
        return describe_write_error(error)[0]
    return error


def describe_read_error(error: BaseException) -> BaseException:
    """Return the refusal of a read; the error itself if it is one of the program."""
    found = find_postgres_error(error) if isinstance(error, DBAPIError | psycopg.Error) else None
    if found is None:
        return error
    detail = f"{type(found).__name__} {found.sqlstate}"
    if found.sqlstate in DAMAGE_CODES:
        log.error("a read failed", error=detail)
        return Unavailable("The database is damaged.", hint=SERVER_HINT)
    if is_lost_connection(found):
        log.error("a read failed", error=detail)
        return Unavailable("The database cannot be reached.", hint="Try again in a moment.")
    if isinstance(found, errors.QueryCanceled | errors.LockNotAvailable):
        log.error("a read failed", error=detail)
        return Unavailable("The database took too long.", hint="Try again in a moment.")
    return error
