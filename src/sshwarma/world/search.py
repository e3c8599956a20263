"""Finding rows by their words.

The index is SQLite's FTS5 over `rows`. Indexing costs five times what appending does, so rows
are indexed in passes of their own, off the way of whoever speaks; a search first indexes what is
missing, so it never misses what was said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, bindparam, text

from sshwarma.world.events import Row
from sshwarma.world.rows import from_row
from sshwarma.world.store import Change

INDEX_PASS: Final = 500
"""Rows indexed in one unit of work: about 40 ms of the writer's time."""

_MISSING = text("SELECT coalesce(max(n), 0) FROM rows")
_INDEXED = text("SELECT last_n FROM rows_indexed")
_INDEX = text(
    "INSERT INTO rows_fts (rowid, content) SELECT n, content FROM rows"
    " WHERE n > :last ORDER BY n LIMIT :pass"
)
_ADVANCE = text(
    "UPDATE rows_indexed SET last_n = coalesce((SELECT max(n) FROM (SELECT n FROM rows"
    " WHERE n > :last ORDER BY n LIMIT :pass)), :last)"
)
_FIND = text(
    "SELECT rows.* FROM rows_fts JOIN rows ON rows.n = rows_fts.rowid"
    " WHERE rows_fts MATCH :words AND rows.room_id IN :rooms"
    " AND rows.kind != 'presence' AND rows.n < :before"
    " ORDER BY rows_fts.rowid DESC LIMIT :limit"
).bindparams(bindparam("rooms", expanding=True))


def behind(conn: Connection) -> int:
    """How many rows are not indexed yet."""
    newest = int(conn.execute(_MISSING).scalar_one())
    return newest - int(conn.execute(_INDEXED).scalar_one())


def index_some(tx: Change) -> bool:
    """Index up to INDEX_PASS rows. Whether there are more."""
    last = int(tx.conn.execute(_INDEXED).scalar_one())
    values = {"last": last, "pass": INDEX_PASS}
    tx.conn.execute(_INDEX, values)
    tx.conn.execute(_ADVANCE, values)
    return behind(tx.conn) > 0


def find(
    conn: Connection, words: str, rooms: Iterable[str], limit: int, before: int | None = None
) -> list[Row]:
    """Rows of those rooms that have all the words, newest first. The last word may be the start
    of one. Text in double quotes is a phrase."""
    query = match_expression(words)
    if not query:
        return []
    values = {
        "words": query,
        "rooms": list(rooms),
        "limit": limit,
        "before": before if before is not None else 2**62,
    }
    return [from_row(row) for row in conn.execute(_FIND, values).mappings()]


def match_expression(words: str) -> str:
    """What a person typed as an FTS5 query: every term quoted, so that none is an operator."""
    parts = words.replace("\0", " ").split('"')  # FTS5 reads no further than a NUL
    terms: list[str] = []
    for index, part in enumerate(parts):
        inside_quotes = index % 2 == 1
        found = [part] if inside_quotes else part.split()
        terms += [f'"{term}"' for term in found if any(c.isalnum() for c in term)]
    if terms and words[-1:].isalnum():
        terms[-1] += "*"
    return " ".join(terms)
