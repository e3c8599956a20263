"""Finding rows by their words.

The index is SQLite's FTS5 over `rows`. Indexing costs five times what appending does, so rows
are indexed in passes of their own, off the way of whoever speaks; a search first indexes what is
missing, so it never misses what was said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
# A row belongs to its turn, or to the first turn it opened that is not undone, as in `messages`.
# What searches were asked and gave is left out: else the newest find would be the search itself.
_FIND = text("""
    SELECT rows.*, turns.id AS group_id, turns.status AS turn_status
    FROM rows_fts JOIN rows ON rows.n = rows_fts.rowid
    LEFT JOIN turns ON turns.id = coalesce((
        SELECT opened.id FROM turns AS opened WHERE opened.request_row_id = rows.id
        ORDER BY opened.status = 'dropped', opened.id LIMIT 1
    ), rows.turn_id)
    WHERE rows_fts MATCH :words AND rows.room_id IN :rooms
      AND rows.kind != 'presence' AND rows.n < :before
      AND coalesce(json_extract(rows.meta, '$.tool'), '') NOT IN :searches
      AND (:dropped OR (rows.status != 'dropped' AND coalesce(turns.status, '') != 'dropped'))
    ORDER BY rows_fts.rowid DESC LIMIT :limit
""").bindparams(bindparam("rooms", expanding=True), bindparam("searches", expanding=True))

SEARCHES: Final = ("global:search", "sshwarma:history", "sshwarma:sql")


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found, and the turn it belongs to; `dropped` if it was undone."""

    row: Row
    turn_id: str | None
    dropped: bool


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
    conn: Connection,
    words: str,
    rooms: Iterable[str],
    limit: int,
    before: int | None = None,
    *,
    dropped: bool = False,
) -> list[Hit]:
    """Rows of those rooms that have all the words, newest first; also undone ones if `dropped`.
    The last word may be the start of one. Text in double quotes is a phrase."""
    query = match_expression(words)
    if not query:
        return []
    values = {
        "words": query,
        "rooms": list(rooms),
        "searches": list(SEARCHES),
        "dropped": dropped,
        "limit": limit,
        "before": before if before is not None else 2**62,
    }
    return [
        Hit(
            from_row(row),
            row["group_id"],
            row["status"] == "dropped" or row["turn_status"] == "dropped",
        )
        for row in conn.execute(_FIND, values).mappings()
    ]


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
