"""Search of a database for values that do not have the type of their column.

It can come from anywhere. SQLite stores any value in any column, and the server reads what a column
is declared to have. `read_check` then reads with the readers of the server.
"""

# ruff: noqa: S608 - names in a statement are those of the schema, with which they were compared

from __future__ import annotations

import sqlite3
from typing import Final

MAX_SEQUENCE: Final = 2**53
"""Numbers of rows that are given up to here; SQLite refuses new rows after 2**63 - 1."""

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
        if declared in ("INTEGER", "FLOAT"):
            query = f'SELECT 1 FROM "{table}" WHERE abs(CAST("{column}" AS REAL)) > ? LIMIT 1'
            if database.execute(query, (MAX_SEQUENCE,)).fetchone() is not None:
                return f"{table}.{column} has a number above {MAX_SEQUENCE}"
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
