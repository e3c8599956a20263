"""Worlds to be moved, with values that are hard to move."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from sshwarma.world.databases import DatabaseUrl
from sshwarma.world.schema import metadata

ODD_TEXTS = (
    "", " ", "\\N", "\\.", "tab\there", "line\r\nend\n", "\b\f\v", "a\\tb", "ü 漢 🦜", "'\"`;--",
    "x" * 70_000,
)  # fmt: skip

ODD_META = (
    '{"tool":"a"}', ' { "b" : [1.50, 1e300] } ', '{"pair":"\\ud83d\\ude00"}', '"text"', "null",
    '{"back":"\\\\u0000"}',
)  # fmt: skip
"""Metadata that PostgreSQL reads, each of which must stay as it is."""

BAD_META = ("{", "half: \\ud800", '{"half":"\\ud800"}', "[" * 5_000, "-")
"""Metadata that PostgreSQL does not read, which must come back as it was."""


def fill(database: Path, count: int = 300) -> None:
    """Add rows, tags, usage, attachments and texts to a new world."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA foreign_keys = ON")
        last_n, last_seq = opened.execute(
            "SELECT coalesce(max(n), 0), coalesce(max(seq) FILTER (WHERE room_id = 'lobby'), 0)"
            " FROM rows"
        ).fetchone()
        metas = [*ODD_META, *BAD_META]
        opened.executemany(
            "INSERT INTO rows (n, id, room_id, seq, kind, content, meta, created_at)"
            " VALUES (?, ?, 'lobby', ?, 'chat', ?, ?, 1700000000000)",
            [
                (
                    last_n + number, f"row-{number}", last_seq + number,
                    ODD_TEXTS[number % len(ODD_TEXTS)], metas[number % len(metas)],
                )
                for number in range(1, count + 1)
            ],
        )  # fmt: skip
        opened.execute("INSERT INTO row_tags SELECT id, 'tagged' FROM rows WHERE kind = 'chat'")
        opened.executemany(
            "INSERT INTO usage (session_id, model, prompt_tokens, completion_tokens, created_at,"
            " cost) VALUES ('lobby', 'm', 1, 2, '2026-01-01', ?)",
            [(cost,) for cost in (None, 0.0, 1e-7, 0.1, 9e15, 123456789.125)],
        )
        opened.execute(
            "INSERT INTO tool_calls (id, chat_id, tool_id, args, status, started_at)"
            " VALUES ('row-1', 'lobby', 't', '{}', 'done', '2026-01-01')"
        )
        opened.execute(
            "INSERT INTO attachments VALUES (7, 'row-1', 1, 'lobby', 'image/png', 256, ?, 1)",
            (bytes(range(256)),),
        )
        opened.execute("UPDATE sqlite_sequence SET seq = seq + 5000 WHERE name = 'rows'")
        opened.commit()


def read_tables(location: Path | DatabaseUrl) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, in order."""
    queries = {}
    for table in metadata.sorted_tables:
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        order = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
        queries[table.name] = f'SELECT {columns} FROM "{table.name}" ORDER BY {order}'
    found: dict[str, list[tuple[Any, ...]]] = {}
    if isinstance(location, DatabaseUrl):
        with psycopg.connect(location.text) as conn:
            for name, query in queries.items():
                found[name] = conn.execute(query.encode()).fetchall()
    else:
        with closing(sqlite3.connect(location)) as opened:
            for name, query in queries.items():
                found[name] = opened.execute(query).fetchall()
    return found
