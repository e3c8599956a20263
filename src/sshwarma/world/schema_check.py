"""Comparison of a database with the schema that its version has.

A database can come from anywhere: a trigger or a view of somebody else's would run in the server.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Final

from sshwarma.common.shorten import shorten_name
from sshwarma.world.migrate import (
    DamagedDatabaseError,
    describe_damage,
    migrate_database,
    newest_revision,
    newest_schema_file,
    read_file_revision,
)

VERSION_TABLE: Final = "alembic_version"

_JSON_TEXTS: Final = {
    "the metadata of the thing": "SELECT id, metadata FROM things WHERE metadata != '' AND CASE"
    " json_valid(metadata) WHEN 1 THEN json_type(metadata) != 'object' ELSE 1 END",
    "the metadata of the row": "SELECT id, meta FROM rows WHERE meta != '' AND CASE"
    " json_valid(meta) WHEN 1 THEN json_type(meta) != 'object' ELSE 1 END",
}
"""What the server reads as JSON objects, and how to find texts that may be none."""

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
    """
    known = _make_known_objects(revision, work)
    found = read_objects(database)
    for kind, name in sorted(found.keys() | known.keys()):
        if (kind, name) not in known:
            raise ForeignSchemaError(f"no version of sshwarma makes its {kind} {name!r}")
        if (kind, name) not in found:
            raise ForeignSchemaError(f"its {kind} {name!r} is missing")
        if found[kind, name] != known[kind, name]:
            raise ForeignSchemaError(f"its {kind} {name!r} is not the one of schema {revision}")


def find_missing_objects(database: sqlite3.Connection) -> list[str]:
    """Return what a database at the newest schema lacks, such as `table 'rows'`."""
    with contextlib.closing(sqlite3.connect(":memory:")) as newest:
        newest.executescript(newest_schema_file().read_text(encoding="utf-8"))
        known = read_objects(newest)
    missing = known.keys() - read_objects(database).keys()
    return [f"{kind} {name!r}" for kind, name in sorted(missing)]


def check_complete(path: Path) -> None:
    """Check that a database at the newest schema has all of it.

    Raises:
        DamagedDatabaseError: with what is missing, and the remedy.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
        missing = find_missing_objects(database)
    if missing:
        raise DamagedDatabaseError(describe_damage(path, f"it lacks {', '.join(missing)}"))


def find_invalid_json(database: sqlite3.Connection) -> str | None:
    """Return the place of the first text that is not a JSON object, or None."""
    for place, query in _JSON_TEXTS.items():
        for identity, text in database.execute(query):
            try:  # SQLite does not know all that Python writes, such as NaN
                is_object = isinstance(json.loads(text), dict)
            except (TypeError, ValueError, RecursionError):
                is_object = False
            if not is_object:
                return f"{place} {identity!r}"
    return None


def read_objects(database: sqlite3.Connection) -> Objects:
    """Return the tables, indexes, views and triggers of a database; runs none."""
    rows = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return {
        (kind, name): _describe_object(database, kind, name, table, sql)
        for kind, name, table, sql in rows
        if (kind, name) not in _OWN_TABLES and (kind, sql) != ("index", None)
    }


def _describe_object(
    database: sqlite3.Connection, kind: str, name: str, table: str, sql: str | None
) -> str:
    """Return the columns of a table, and the statement of anything else.

    The statement of a table differs after ALTER TABLE from that of a new one.
    """
    statement = " ".join((sql or "").split())
    if kind != "table" or not statement.upper().startswith("CREATE TABLE"):
        return f"{table}: {statement}"
    columns = database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,))
    return repr(columns.fetchall())


def _make_known_objects(revision: str, work: Path) -> Objects:
    path = work / "schema.db"
    migrate_database(path, "head" if revision == newest_revision() else revision)
    with contextlib.closing(sqlite3.connect(path)) as database:
        return read_objects(database)
