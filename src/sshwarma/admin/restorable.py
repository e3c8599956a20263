"""The check that a copy of a world could be restored, by backup and restore."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import StaticPool

from sshwarma.admin.database_copy import check_pages, no_check
from sshwarma.common.read_only_database import opened_read_only
from sshwarma.mcp.client import server_records
from sshwarma.world import things
from sshwarma.world.data_check import find_invalid_data
from sshwarma.world.migrate import known_revisions, newest_revision
from sshwarma.world.read_check import Step, find_failing_start, find_unreadable
from sshwarma.world.schema_check import check_objects, read_checked_revision


class UnusableCopyError(Exception):
    """A database that no server could use. Its message is a clause."""


def check_copy(copy: Path, work: Path, check: Callable[[], None] = no_check) -> str:
    """Check a copy of a database that nobody else uses; return its revision.

    One of a newer version is only searched for damage.

    Args:
        copy: its file; it has the same content afterwards.
        work: a directory for other databases.
        check: called again and again; what it raises ends the check.

    Raises:
        UnusableCopyError: if a server could not read it.
        ForeignSchemaError: if it does not have the tables of its revision.
        sqlite3.DatabaseError: if it is damaged.
        OSError: if the disk is full or fails.
    """
    verdict = check_pages(copy, check)
    with contextlib.closing(sqlite3.connect(copy)) as database:
        revision = read_checked_revision(database)
        if revision in known_revisions():
            check_objects(database, revision, work)
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    if revision in known_revisions() and (reason := _find_unusable(copy, revision, check)):
        raise UnusableCopyError(reason)
    return revision


def find_unreadable_data(database: Path, check: Callable[[], None] = no_check) -> str | None:
    """Return what a server cannot read in a database of the newest schema, or None.

    Nothing is changed, and a server may be running.

    Raises:
        sqlite3.DatabaseError: if it is damaged.
        OSError: if the disk fails.
    """
    with opened_read_only(database, isolation_level=None) as opened:
        if (found := find_invalid_data(opened)) is not None:
            return found
        with _connect(opened) as conn:
            return find_unreadable(conn, check, _list_other_steps(conn))


def _find_unusable(copy: Path, revision: str, check: Callable[[], None]) -> str | None:
    """Upgrade and start a copy, and take that back; return what fails."""
    from sshwarma.verbs.registry import tool_specs  # takes as long as the rest of the command

    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as opened:
        if (found := find_invalid_data(opened)) is not None:
            return found
        check()
        with _connect(opened) as conn:
            conn.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                is_newest = revision == newest_revision()
                found = find_failing_start(conn, tool_specs(), is_newest=is_newest)
                return found or find_unreadable(conn, check, _list_other_steps(conn))
            finally:
                conn.exec_driver_sql("ROLLBACK")


@contextlib.contextmanager
def _connect(opened: sqlite3.Connection) -> Iterator[Connection]:
    """Use an open database with SQLAlchemy."""
    engine = create_engine(
        "sqlite://", creator=lambda: opened, poolclass=StaticPool, hide_parameters=True
    )
    with engine.connect() as conn:
        yield conn


def _list_other_steps(conn: Connection) -> list[Step]:
    """Return the readings of other parts of the program."""

    def read_servers() -> None:
        for thing in things.read_children(conn, server_records.SERVERS_PARENT_ID, "mcp"):
            if "entry" in thing.metadata:
                server_records.read_settings(thing)

    return [("the MCP servers", read_servers)]
