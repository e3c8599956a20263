"""A room's log: appending to it and reading it back.

Kinds: `chat`, `emote`, `tell`, `presence`, `notice`, `tool.call`, `tool.result`, `tool.error`,
`tool.timeout`, `journal.note`, `journal.decision`, `journal.idea`, `journal.milestone`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, func, select

from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.authors import CAUSE_KEY, EXTERNAL_KEY, HOPS_KEY
from sshwarma.world.events import RowAppended
from sshwarma.world.ids import new_id
from sshwarma.world.portable_sql import byte_length
from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.schema import rows
from sshwarma.world.store import Change
from sshwarma.world.stored_json import dump_metadata

CALL_END_KINDS: Final = ("tool.result", "tool.error", "tool.timeout")
"""Kinds of the rows that end a call."""

CALL_KINDS: Final = ("tool.call", *CALL_END_KINDS)
"""Kinds of the rows of a call: the one that begins it, and those that end it."""


def append_row(  # noqa: PLR0913 - one keyword for each column
    tx: Change,
    room_id: str,
    kind: str,
    content: str,
    *,
    author_id: str | None,
    parent_row_id: str | None = None,
    turn_id: str | None = None,
    status: str = "completed",
    meta: dict[str, Any] | None = None,
    tags: Iterable[str] = (),
    audience: frozenset[str] | None = None,
    origin: object | None = None,
) -> Row:
    """Append a row to a room's log and publish it, to `audience` only if given.

    `origin` is that of `RowAppended`.
    A NUL in `content` becomes visible: SQL functions and clients would end the text there.
    """
    content = replace_nul(content)
    if tx.cause:
        meta = {**(meta or {}), CAUSE_KEY: tx.cause}
    if tx.is_external and author_id is not None:
        meta = {**(meta or {}), EXTERNAL_KEY: True}
    if tx.hook_hops:
        meta = {**(meta or {}), HOPS_KEY: tx.hook_hops}
    row_id, seq = new_id(), tx.next_seq(room_id)
    n = tx.insert_row(
        (
            row_id, room_id, seq, turn_id, parent_row_id, author_id, kind, status, content,
            dump_metadata(meta), tx.now,
        ),
        tags,
    )  # fmt: skip
    row = Row(
        id=row_id,
        room_id=room_id,
        seq=seq,
        kind=kind,
        content=content,
        author_id=author_id,
        created_at=tx.now,
        parent_row_id=parent_row_id,
        turn_id=turn_id,
        status=status,
        meta=meta or {},
        n=n,
    )
    tx.publish_on_commit(RowAppended(row, audience, origin))
    return row


def read_last_seq(conn: Connection, room_id: str) -> int:
    """Return the number of the newest row; 0 in an empty log."""
    query = select(func.coalesce(func.max(rows.c.seq), 0)).where(rows.c.room_id == room_id)
    return int(conn.execute(query).scalar_one())


def count_bytes(conn: Connection, room_id: str, limit: int) -> int:
    """Return the bytes of text in the newest `limit` rows of a log."""
    newest = (
        select(byte_length(rows.c.content).label("size"))
        .where(rows.c.room_id == room_id)
        .order_by(rows.c.seq.desc())
        .limit(limit)
        .subquery()
    )
    return int(conn.execute(select(func.coalesce(func.sum(newest.c.size), 0))).scalar_one())


def read_newest_number(conn: Connection) -> int:
    """Return the number of the newest row of all logs; 0 before the first row."""
    return int(conn.execute(select(func.coalesce(func.max(rows.c.n), 0))).scalar_one())


def read_seq_at(conn: Connection, room_id: str, number: int) -> int:
    """Return the `seq` of a log's last row at a position in the world's log, or 0."""
    query = (
        select(rows.c.seq)
        .where(rows.c.room_id == room_id, rows.c.n <= number)
        .order_by(rows.c.seq.desc())
        .limit(1)
    )
    return conn.execute(query).scalar() or 0


def read_numbered(conn: Connection, room_id: str, seq: int) -> Row | None:
    """Return the row of a log by its number, or None."""
    found = read_tail(conn, room_id, 1, before=seq + 1)
    return found[0] if found and found[0].seq == seq else None


def read_tail(
    conn: Connection,
    room_id: str,
    limit: int,
    *,
    before: int | None = None,
    kinds: Sequence[str] = (),
    prefix: str = "",
    max_characters: int | None = None,
) -> list[Row]:
    """Return the last `limit` rows, oldest first.

    Rows with a `seq` below `before`, of some `kinds` or of kinds that start with `prefix`. With
    `max_characters` fewer rows than `limit` if their texts are longer together, but one at least.
    """
    query = select(rows).where(rows.c.room_id == room_id)
    if before is not None:
        query = query.where(rows.c.seq < before)
    if kinds:
        query = query.where(rows.c.kind.in_(kinds))
    if prefix:
        query = query.where(rows.c.kind.startswith(prefix, autoescape=True))
        query = query.where(rows.c.kind.not_in(("chat", "emote", "presence")))
    query = query.order_by(rows.c.seq.desc()).limit(limit)
    with conn.execute(query) as found:
        return list(take_rows(map(row_from_mapping, found.mappings()), max_characters))[::-1]


def take_rows(found: Iterable[Row], max_characters: int | None) -> Iterator[Row]:
    """Yield rows until their texts together have that many characters; at least one.

    No row after these is read.
    """
    total = 0
    for row in found:
        total += len(row.content)
        if max_characters is not None and total > max_characters and total > len(row.content):
            return
        yield row


def read_row_numbers(conn: Connection, turn_ids: Iterable[str]) -> tuple[int, ...]:
    """Return the numbers of the rows of some turns, in order."""
    query = select(rows.c.seq).where(rows.c.turn_id.in_(list(turn_ids))).order_by(rows.c.seq)
    return tuple(conn.execute(query).scalars())


def read_turn_rows(conn: Connection, turn_id: str) -> list[Row]:
    """Return the rows of a turn, in order."""
    query = select(rows).where(rows.c.turn_id == turn_id).order_by(rows.c.n)
    return [row_from_mapping(row) for row in conn.execute(query).mappings()]


def read_rows_by_id(conn: Connection, row_ids: Iterable[str]) -> list[Row]:
    """Return the rows with those ids, in the order of the log."""
    ids = list(row_ids)
    if not ids:
        return []
    query = select(rows).where(rows.c.id.in_(ids)).order_by(rows.c.n)
    return [row_from_mapping(row) for row in conn.execute(query).mappings()]


def read_window_rows(
    conn: Connection, room_id: str, turn_ids: Iterable[str], loose_after: int, before: int | None
) -> list[Row]:
    """Return the rows of some turns and, after a `seq`, those of no turn, in order.

    Only rows with a `seq` below `before`, if given.
    """
    # Two queries, because one with OR would read the whole log.
    turn_query = select(rows).where(rows.c.turn_id.in_(list(turn_ids)))
    loose_query = select(rows).where(
        rows.c.room_id == room_id, rows.c.seq > loose_after, rows.c.turn_id.is_(None)
    )
    result: list[Row] = []
    for query in (turn_query, loose_query):
        if before is not None:
            query = query.where(rows.c.seq < before)
        result += [row_from_mapping(row) for row in conn.execute(query).mappings()]
    return sorted(result, key=lambda row: row.seq)
