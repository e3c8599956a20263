"""Full-text search of rows.

The index is SQLite's FTS5 over `rows`. Indexing costs five times as much as appending, so rows are
indexed in separate passes that do not delay speakers; a search first indexes the missing rows, so
its results are complete.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.exc import OperationalError

from sshwarma.common.limits import (
    MAX_PAGE_CHARACTERS,
    MAX_SEARCH_WORDS,
    SEARCH_TIMEOUT_SECONDS,
)
from sshwarma.common.sqlite import CLOCK_CHECK_INSTRUCTIONS
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.row import Row
from sshwarma.world.rows import row_from_mapping
from sshwarma.world.store import Change

_WORD_PATTERN: Final = re.compile(r"[^\W_]+")

INDEX_PASS_ROWS: Final = 500
"""Rows indexed in one unit of work: about 40 ms of the writer's time."""

_SELECT_NEWEST_N = text("SELECT coalesce(max(n), 0) FROM rows")
_SELECT_INDEXED_N = text("SELECT last_n FROM rows_indexed")
_INSERT_INDEX_ROWS = text(
    "INSERT INTO rows_fts (rowid, content) SELECT n, content FROM rows"
    " WHERE n > :last ORDER BY n LIMIT :pass"
)
_UPDATE_INDEXED_N = text(
    "UPDATE rows_indexed SET last_n = coalesce((SELECT max(n) FROM (SELECT n FROM rows"
    " WHERE n > :last ORDER BY n LIMIT :pass)), :last)"
)
# A row belongs to its turn, or to the first turn it opened that is not undone, as in `messages`.
# Calls and results of searches are left out: else the newest hit would be the search itself.
_SELECT_HITS = text("""
    SELECT rows.*, turns.id AS group_id, turns.status AS turn_status
    FROM rows_fts JOIN rows ON rows.n = rows_fts.rowid
    LEFT JOIN turns ON turns.id = coalesce((
        SELECT opened.id FROM turns AS opened WHERE opened.request_row_id = rows.id
        ORDER BY opened.status = 'dropped', opened.id LIMIT 1
    ), rows.turn_id)
    WHERE rows_fts MATCH :words AND rows.room_id IN :rooms
      AND rows.kind != 'presence' AND rows.n < :before
      AND coalesce(CASE json_valid(rows.meta) WHEN 1 THEN json_extract(rows.meta, '$.tool') END, '')
        NOT IN :searches
      AND (:dropped OR (rows.status != 'dropped' AND coalesce(turns.status, '') != 'dropped'))
    ORDER BY rows_fts.rowid DESC LIMIT :limit
""").bindparams(bindparam("rooms", expanding=True), bindparam("searches", expanding=True))

SEARCH_TOOLS: Final = ("global:search", "sshwarma:history", "sshwarma:sql")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A matching row, and the turn it belongs to; `dropped` if it was undone."""

    row: Row
    turn_id: str | None
    dropped: bool


def count_unindexed_rows(conn: Connection) -> int:
    """Number of rows that are not indexed yet."""
    newest_n = int(conn.execute(_SELECT_NEWEST_N).scalar_one())
    return newest_n - int(conn.execute(_SELECT_INDEXED_N).scalar_one())


def index_next_rows(tx: Change) -> bool:
    """Index up to INDEX_PASS_ROWS rows. Returns whether more remain."""
    last_n = int(tx.conn.execute(_SELECT_INDEXED_N).scalar_one())
    values = {"last": last_n, "pass": INDEX_PASS_ROWS}
    tx.conn.execute(_INSERT_INDEX_ROWS, values)
    tx.conn.execute(_UPDATE_INDEXED_N, values)
    return count_unindexed_rows(tx.conn) > 0


def search_rows(
    conn: Connection,
    words: str,
    rooms: Iterable[str],
    limit: int,
    before: int | None = None,
    *,
    dropped: bool = False,
) -> list[SearchHit]:
    """Rows of those rooms that have all the words, newest first.

    Undone ones too, if `dropped`. Fewer than `limit` if their texts have over MAX_PAGE_CHARACTERS
    together. The last word also matches as a prefix. Text in double quotes is a phrase.

    Raises:
        Invalid: if there are over MAX_SEARCH_WORDS words.
        Unavailable: if it takes over SEARCH_TIMEOUT_SECONDS.
    """
    query = build_fts_query(words)
    if not query:
        return []
    # FTS5 splits `a.b` into two words, and does not look at the clock within a row.
    if len(_WORD_PATTERN.findall(words)) > MAX_SEARCH_WORDS:
        raise Invalid(f"A search can have at most {MAX_SEARCH_WORDS} words.")
    values = {
        "words": query,
        "rooms": list(rooms),
        "searches": list(SEARCH_TOOLS),
        "dropped": dropped,
        "limit": limit,
        "before": before if before is not None else 2**62,
    }
    hits: list[SearchHit] = []
    with _search_timeout(conn), conn.execute(_SELECT_HITS, values) as found:
        size = 0
        for row in found.mappings():
            is_dropped = row["status"] == "dropped" or row["turn_status"] == "dropped"
            hits.append(SearchHit(row_from_mapping(row), row["group_id"], is_dropped))
            size += len(row["content"])
            if size > MAX_PAGE_CHARACTERS:
                break
    return hits


@contextmanager
def _search_timeout(conn: Connection) -> Iterator[None]:
    """Interrupt SQLite in this block after SEARCH_TIMEOUT_SECONDS."""
    driver = conn.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - the store's engine is SQLite's
    deadline = time.monotonic() + SEARCH_TIMEOUT_SECONDS
    driver.set_progress_handler(lambda: time.monotonic() > deadline, CLOCK_CHECK_INSTRUCTIONS)
    try:
        yield
    except OperationalError as error:
        if time.monotonic() <= deadline:
            raise
        raise Unavailable(
            f"The search took over {SEARCH_TIMEOUT_SECONDS:g} s.", hint="Use rarer words."
        ) from error
    finally:
        driver.set_progress_handler(None, 0)


def build_fts_query(words: str) -> str:
    """Return an FTS5 query from typed words, each quoted so that none is an operator."""
    parts = words.replace("\0", " ").split('"')  # FTS5 stops reading at a NUL
    terms: list[str] = []
    for index, part in enumerate(parts):
        inside_quotes = index % 2 == 1
        phrases = [part] if inside_quotes else part.split()
        terms += [f'"{term}"' for term in phrases if any(c.isalnum() for c in term)]
    if terms and words[-1:].isalnum():
        terms[-1] += "*"
    return " ".join(terms)
