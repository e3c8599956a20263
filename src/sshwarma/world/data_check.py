"""Search of a database for values that no version writes.

It can come from anywhere. SQLite stores any value in any column, and the server reads what a column
is declared to have.
"""

# ruff: noqa: S608 - names in a statement are those of the schema, with which they were compared

from __future__ import annotations

import json
import sqlite3
from typing import Final

from sshwarma.world.access import TokenScope
from sshwarma.world.agents import SERVER_ROLES

MAX_SEQUENCE: Final = 2**53
"""Numbers of rows that are given up to here; SQLite refuses new rows after 2**63 - 1."""

MAX_BRACKETS: Final = 500
"""Brackets in a JSON text from which on Python is asked, too: it reads no thousand levels."""

_DOUBTFUL: Final = (
    "SELECT id, {column} FROM {table} WHERE {column} != '' AND (CASE json_valid({column})"
    " WHEN 1 THEN json_type({column}) != 'object' ELSE 1 END OR length({column})"
    " - length(replace(replace({column}, '[', ''), '{{', '')) > ?)"
)
_JSON_TEXTS: Final = {
    "the metadata of the thing": _DOUBTFUL.format(table="things", column="metadata"),
    "the metadata of the row": _DOUBTFUL.format(table="rows", column="meta"),
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
        for identity, text in database.execute(query, (MAX_BRACKETS,)):
            if not _is_object(text):
                return f"{place} {identity!r} is not a JSON object that can be read"
    if (found := _find_unknown_word(database)) is not None:
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


def _find_unknown_word(database: sqlite3.Connection) -> str | None:
    """Return a role or a scope that no version knows, or None."""
    role, marks = "metadata, '$.role'", ", ".join("?" * len(SERVER_ROLES))
    roles = (
        f"SELECT id FROM things WHERE kind = 'agent' AND json_extract({role}) IS NOT NULL"
        f" AND (json_type({role}) != 'text' OR json_extract({role}) NOT IN ({marks}))"
    )
    if (found := database.execute(roles, SERVER_ROLES).fetchone()) is not None:
        return f"the agent {found[0]!r} has an unknown role"
    columns = database.execute("SELECT name FROM pragma_table_info('tokens')").fetchall()
    if ("scope",) in columns:
        scopes = [scope.value for scope in TokenScope]
        query = f"SELECT id FROM tokens WHERE scope NOT IN ({', '.join('?' * len(scopes))})"
        if (found := database.execute(query, scopes).fetchone()) is not None:
            return f"the token {found[0]!r} has an unknown scope"
    return None


def _is_object(text: str) -> bool:
    try:  # SQLite does not know all that Python writes, such as NaN
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError, RecursionError):
        return False
