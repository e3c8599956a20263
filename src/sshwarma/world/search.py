"""Full-text search of rows.

In a file the index is SQLite's FTS5 over `rows`. Indexing costs five times as much as appending, so
rows are indexed in separate passes that do not delay speakers; a search first indexes the missing
rows, so its results are complete. PostgreSQL indexes each row as it is inserted.
"""

from __future__ import annotations

import re
import sqlite3
import time
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, TextClause, bindparam, text
from sqlalchemy.exc import OperationalError

from sshwarma.common.limits import (
    MAX_PAGE_CHARACTERS,
    MAX_SEARCH_WORDS,
    SEARCH_TIMEOUT_SECONDS,
)
from sshwarma.common.sqlite import CLOCK_CHECK_INSTRUCTIONS
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.store import Change

_WORD_PATTERN: Final = re.compile(r"[^\W_]+")
_MARK_PATTERN: Final = re.compile("[\u0300-\u036f]")  # accents, which a search does not see

QUERY_CANCELED: Final = "57014"
"""The code of PostgreSQL's error about a statement that took too long."""

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
_QUERY: Final = """
    SELECT rows.*, turns.id AS group_id, turns.status AS turn_status
    FROM {tables}
    LEFT JOIN turns ON turns.id = coalesce((
        SELECT opened.id FROM turns AS opened WHERE opened.request_row_id = rows.id
        ORDER BY opened.status = 'dropped', opened.id LIMIT 1
    ), rows.turn_id)
    WHERE {match} AND rows.room_id IN :rooms
      AND rows.kind != 'presence' AND rows.n < :before
      AND coalesce({tool}, '') NOT IN :searches
      AND (:dropped = 1 OR (rows.status != 'dropped' AND coalesce(turns.status, '') != 'dropped'))
    ORDER BY {order} DESC LIMIT :limit
"""


def _make_query(**parts: str) -> TextClause:
    query = text(_QUERY.format(**parts))
    return query.bindparams(
        bindparam("rooms", expanding=True), bindparam("searches", expanding=True)
    )


_SELECT_FTS5_HITS = _make_query(
    tables="rows_fts JOIN rows ON rows.n = rows_fts.rowid",
    match="rows_fts MATCH :words",
    tool="CASE json_valid(rows.meta) WHEN 1 THEN json_extract(rows.meta, '$.tool') END",
    order="rows_fts.rowid",
)
_SELECT_POSTGRES_HITS = _make_query(
    tables="rows",
    match="search_words(rows.content) @@ to_tsquery('pg_catalog.simple', :words)",
    tool="CAST(rows.meta AS jsonb) ->> 'tool'",
    order="rows.n",
)

SEARCH_TOOLS: Final = ("global:search", "sshwarma:history", "sshwarma:sql")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A matching row, and the turn it belongs to; `dropped` if it was undone."""

    row: Row
    turn_id: str | None
    dropped: bool


def count_unindexed_rows(conn: Connection) -> int:
    """Number of rows that are not indexed yet; PostgreSQL has none."""
    if conn.dialect.name == "postgresql":
        return 0
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
    is_postgres = conn.dialect.name == "postgresql"
    query = build_words_query(words) if is_postgres else build_fts_query(words)
    if not query:
        return []
    # FTS5 splits `a.b` into two words, and does not look at the clock within a row.
    if len(_WORD_PATTERN.findall(words)) > MAX_SEARCH_WORDS:
        raise Invalid(f"A search can have at most {MAX_SEARCH_WORDS} words.")
    values = {
        "words": query,
        "rooms": list(rooms),
        "searches": list(SEARCH_TOOLS),
        "dropped": int(dropped),
        "limit": limit,
        "before": before if before is not None else 2**62,
    }
    hits: list[SearchHit] = []
    select = _SELECT_POSTGRES_HITS if is_postgres else _SELECT_FTS5_HITS
    with _search_timeout(conn), conn.execute(select, values) as found:
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
    """Interrupt the database in this block after SEARCH_TIMEOUT_SECONDS."""
    deadline = time.monotonic() + SEARCH_TIMEOUT_SECONDS
    driver = conn.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        limit_ms = max(1, round(SEARCH_TIMEOUT_SECONDS * 1_000))  # 0 would be no limit
        conn.exec_driver_sql(f"SET LOCAL statement_timeout = {limit_ms}")
        try:
            yield
            conn.exec_driver_sql("SET LOCAL statement_timeout TO DEFAULT")  # for the next query
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", "") != QUERY_CANCELED:
                raise
            raise _timeout_error() from error
        return
    driver.set_progress_handler(lambda: time.monotonic() > deadline, CLOCK_CHECK_INSTRUCTIONS)
    try:
        yield
    except OperationalError as error:
        if time.monotonic() <= deadline:
            raise
        raise _timeout_error() from error
    finally:
        driver.set_progress_handler(None, 0)


def _timeout_error() -> Unavailable:
    return Unavailable(
        f"The search took over {SEARCH_TIMEOUT_SECONDS:g} s.", hint="Use rarer words."
    )


def build_fts_query(words: str) -> str:
    """Return an FTS5 query from typed words, each quoted so that none is an operator."""
    terms = [f'"{term}"' for term in _split_terms(words)]
    if terms and words[-1:].isalnum():
        terms[-1] += "*"
    return " ".join(terms)


def build_words_query(words: str) -> str:
    """Return a query of PostgreSQL from typed words; none is an operator."""
    terms = []
    for term in _split_terms(words):
        marked = unicodedata.normalize("NFD", term)
        plain = unicodedata.normalize("NFC", _MARK_PATTERN.sub("", marked))
        terms.append(" <-> ".join(f"'{word}'" for word in _WORD_PATTERN.findall(plain)))
    if terms and words[-1:].isalnum():
        terms[-1] += ":*"
    return " & ".join(f"({term})" for term in terms if term)


def _split_terms(words: str) -> list[str]:
    """Return words, and phrases in double quotes, that have a letter or a digit."""
    terms: list[str] = []
    for index, part in enumerate(words.replace("\0", " ").split('"')):  # FTS5 stops at a NUL
        inside_quotes = index % 2 == 1
        phrases = [part] if inside_quotes else part.split()
        terms += [term for term in phrases if any(c.isalnum() for c in term)]
    return terms
