"""Search of a database for values that no version writes.

It can come from anywhere. SQLite stores any value in any column, and the server reads what a column
is declared to have.
"""

# ruff: noqa: S608 - names in a statement are those of the schema, with which they were compared

from __future__ import annotations

import json
import sqlite3
from typing import Final

MAX_SEQUENCE: Final = 2**53
"""Numbers of rows that are given up to here; SQLite refuses new rows after 2**63 - 1."""

_JSON_TEXTS: Final = {
    "the metadata of the thing": "SELECT id, metadata FROM things WHERE metadata != '' AND CASE"
    " json_valid(metadata) WHEN 1 THEN json_type(metadata) != 'object' ELSE 1 END",
    "the metadata of the row": "SELECT id, meta FROM rows WHERE meta != '' AND CASE"
    " json_valid(meta) WHEN 1 THEN json_type(meta) != 'object' ELSE 1 END",
}
"""What the server reads as JSON objects, and how to find texts that may be none."""

_WRONG_TYPES: Final = {"TEXT": ("blob",), "INTEGER": ("blob", "text"), "FLOAT": ("blob", "text")}
"""What columns of each declared type never have; numbers of both kinds are exchanged."""


def find_invalid_data(database: sqlite3.Connection) -> str | None:
    """Return the first value that the server could not read, as a sentence, or None.

    Names of tables and columns must have been checked before.

    Raises:
        sqlite3.DatabaseError: if the database is damaged.
    """
    tables = database.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
    ).fetchall()
    for [table] in tables:
        if (found := _find_wrong_value(database, table)) is not None:
            return found
    for place, query in _JSON_TEXTS.items():
        for identity, text in database.execute(query):
            if not _is_object(text):
                return f"{place} {identity!r} is not a JSON object"
    sequence = "SELECT name FROM sqlite_sequence WHERE typeof(seq) != 'integer' OR seq > ?"
    if (full := database.execute(sequence, (MAX_SEQUENCE,)).fetchone()) is not None:
        return f"the table {full[0]!r} can have no more rows"
    return None


def _find_wrong_value(database: sqlite3.Connection, table: str) -> str | None:
    """Return the first value that does not have the type of its column, or None."""
    columns = database.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
    texts = []
    for column, declared in columns:
        if declared in _WRONG_TYPES:
            wrong = ", ".join(f"'{kind}'" for kind in _WRONG_TYPES[declared])
            query = (
                f'SELECT typeof("{column}") FROM "{table}" WHERE typeof("{column}") IN ({wrong})'
            )
            if (found := database.execute(f"{query} LIMIT 1").fetchone()) is not None:
                return f"{table}.{column} has a value of the type {found[0]}"
        if declared == "TEXT":
            texts.append(f'"{column}"')
    try:
        for _ in database.execute(f'SELECT {", ".join(texts) or 1} FROM "{table}"'):
            pass
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
        return f"{table} has a text that is not UTF-8"
    return None


def _is_object(text: str) -> bool:
    try:  # SQLite does not know all that Python writes, such as NaN
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError, RecursionError):
        return False
