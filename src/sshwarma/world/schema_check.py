"""Comparison of a database with the schema that its version has.

A database can come from anywhere: a trigger or a view of somebody else's would run in the server.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy.exc import DBAPIError

from sshwarma.common.read_only_database import opened_read_only
from sshwarma.common.shorten import shorten_name
from sshwarma.world.migrate import (
    DamagedDatabaseError,
    describe_damage,
    migrate_database,
    newest_revision,
    newest_schema_file,
    read_file_revision,
    sqlite_error,
)

VERSION_TABLE: Final = "alembic_version"

CLAUSES: Final = (
    "AS", "CHECK", "COLLATE", "CONFLICT", "DEFERRABLE", "STORED", "STRICT", "VIRTUAL", "WITHOUT",
)  # fmt: skip
"""Words that begin what only the statement of a table tells."""

_OWN_TABLES: Final = {
    ("table", name) for name in ("sqlite_sequence", "sqlite_stat1", "sqlite_stat4")
}
"""Tables that SQLite itself makes; its indexes of keys have no statement."""

Objects = dict[tuple[str, str], str]
"""What defines each table, index, view and trigger, by its kind and name."""


class ForeignSchemaError(Exception):
    """A database that does not have the tables, views and triggers of its version."""


def read_checked_revision(database: sqlite3.Connection) -> str:
    """Return the revision of a database that may come from anywhere.

    Raises:
        ForeignSchemaError: if reading the revision could run something else.
        sqlite3.DatabaseError: if it is not a database of this program, or is damaged.
    """
    kinds = [kind for kind, name in read_objects(database) if name == VERSION_TABLE]
    if kinds not in ([], ["table"]):
        raise ForeignSchemaError(f"{VERSION_TABLE} is a {kinds[0]} and not a table")
    revision = read_file_revision(database)
    if not (revision.isascii() and revision.isdecimal()):
        raise ForeignSchemaError(f"its schema is {shorten_name(revision)!r}")
    return revision


def check_objects(database: sqlite3.Connection, revision: str, work: Path) -> None:
    """Check that a database has what its revision has, and nothing else.

    Args:
        database: to be checked.
        revision: one that this program knows.
        work: a directory for a new database of that revision.

    Raises:
        ForeignSchemaError: with the first difference.
        DamagedDatabaseError: if the new database cannot be made, as on a full disk.
    """
    _compare_objects(read_objects(database), _make_known_objects(revision, work), revision)


def check_newest_objects(database: sqlite3.Connection) -> None:
    """Check that a database has what the newest schema has, and nothing else.

    Raises:
        ForeignSchemaError: with the first difference.
    """
    _compare_objects(read_objects(database), _read_newest_objects(), newest_revision())


def check_complete(path: Path) -> None:
    """Check that a database at the newest schema has all of it.

    Raises:
        DamagedDatabaseError: with what is missing, and the remedy.
    """
    with opened_read_only(path) as database:
        found = _list_objects(database).keys()
    if missing := sorted(_list_newest_objects() - found):
        names = ", ".join(f"{kind} {name!r}" for kind, name in missing)
        raise DamagedDatabaseError(describe_damage(path, f"it lacks {names}"))


def read_objects(database: sqlite3.Connection) -> Objects:
    """Return the tables, indexes, views and triggers of a database; runs none."""
    return {
        (kind, name): _describe_object(database, kind, name, table, sql)
        for (kind, name), (table, sql) in _list_objects(database).items()
    }


def _list_objects(
    database: sqlite3.Connection,
) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return the table and the statement of each object, by its kind and name."""
    rows = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return {
        (kind, name): (table, sql)
        for kind, name, table, sql in rows
        if (kind, name) not in _OWN_TABLES and (kind, sql) != ("index", None)
    }


def _describe_object(
    database: sqlite3.Connection, kind: str, name: str, table: str, sql: str | None
) -> str:
    """Return all that a table has, and the statement of anything else.

    The statement of a table differs after ALTER TABLE from that of a new one.
    """
    statement = " ".join((sql or "").split())
    if kind != "table" or not statement.upper().startswith("CREATE TABLE"):
        return f"{table}: {statement}"

    def read(query: str) -> list[str]:
        return sorted(map(repr, database.execute(query, (name,))))

    words = Counter(re.findall(r"\w+", statement.upper()))
    return repr(
        (
            read('SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)'),
            read(
                'SELECT seq, "table", "from", "to", on_update, on_delete, match'
                " FROM pragma_foreign_key_list(?)"
            ),
            read(
                'SELECT "unique", origin, partial, seqno, desc, coll, col.name'
                " FROM pragma_index_list(?) AS list, pragma_index_xinfo(list.name) AS col"
                " WHERE origin != 'c'"
            ),
            [words[clause] for clause in CLAUSES],
        )
    )


def _compare_objects(found: Objects, known: Objects, revision: str) -> None:
    for kind, name in sorted(found.keys() | known.keys()):
        if (kind, name) not in known:
            raise ForeignSchemaError(f"no version of sshwarma makes its {kind} {name!r}")
        if (kind, name) not in found:
            raise ForeignSchemaError(f"its {kind} {name!r} is missing")
        if found[kind, name] != known[kind, name]:
            raise ForeignSchemaError(f"its {kind} {name!r} is not the one of schema {revision}")


@cache
def _list_newest_objects() -> frozenset[tuple[str, str]]:
    with _make_newest_database() as newest:
        return frozenset(_list_objects(newest))


@cache
def _read_newest_objects() -> Objects:
    with _make_newest_database() as newest:
        return read_objects(newest)


@contextlib.contextmanager
def _make_newest_database() -> Iterator[sqlite3.Connection]:
    """Make an empty database of the newest schema, in memory."""
    with contextlib.closing(sqlite3.connect(":memory:")) as newest:
        newest.executescript(newest_schema_file().read_text(encoding="utf-8"))
        yield newest


def _make_known_objects(revision: str, work: Path) -> Objects:
    path = work / "schema.db"
    try:
        migrate_database(path, "head" if revision == newest_revision() else revision)
    except DBAPIError as error:  # the disk is full, or fails
        raise sqlite_error(path, error.orig) from error
    with contextlib.closing(sqlite3.connect(path)) as database:
        return read_objects(database)
