"""Private conversations: a log that two agents share and nobody else can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, case, func, select

from sshwarma.world import rows, things
from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change

READ_KEY: Final = "read_messages"
"""The key of an agent's metadata that holds the number of the last message that it has read."""

READ_OF_KEY: Final = "read_messages_of"
"""The key of the same for single logs, of which it has read more: by their ids."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The private messages of an agent with another one.

    Attributes:
        newest: the newest of them, by either.
        unread: how many of the other's it has not read.
    """

    peer_id: str
    newest: Row
    unread: int


def pair_name(one_id: str, other_id: str) -> str:
    """Return the name of the log that two agents share, in any order of their ids."""
    return "+".join(sorted((one_id, other_id)))


def find_private_log(conn: Connection, one_id: str, other_id: str) -> str | None:
    """Return the id of the log the two agents share, if they have talked."""
    log = things.find_child(conn, "directs", pair_name(one_id, other_id), "container")
    return log.id if log else None


def read_private_logs(conn: Connection, agent_id: str, *others: str) -> list[str]:
    """Ids of an agent's private logs; with `others`, of those between all of them."""
    wanted = {agent_id, *others}
    return [log_id for log_id, pair in _read_pairs(conn, agent_id).items() if wanted <= pair]


def _read_pairs(conn: Connection, agent_id: str) -> dict[str, set[str]]:
    """Return the private logs of an agent with the two agents of each."""
    query = select(things_table.c.id, things_table.c.name).where(
        things_table.c.parent_id == "directs", things_table.c.name.contains(agent_id)
    )
    pairs = {log_id: set(name.split("+")) for log_id, name in conn.execute(query)}
    return {log_id: pair for log_id, pair in pairs.items() if agent_id in pair}


def read_conversations(conn: Connection, agent_id: str, limit: int) -> list[Conversation]:
    """Return the private conversations of an agent, the newest first."""
    pairs = _read_pairs(conn, agent_id)
    newest = (
        select(func.max(rows_table.c.n))
        .where(rows_table.c.room_id.in_(pairs))
        .group_by(rows_table.c.room_id)
    )
    query = (
        select(rows_table)
        .where(rows_table.c.n.in_(newest))
        .order_by(rows_table.c.n.desc())
        .limit(limit)
    )
    found = [row_from_mapping(row) for row in conn.execute(query).mappings()]
    unread = _count_unread(conn, agent_id)
    return [
        Conversation(peer_id, row, unread.get(row.room_id, 0))
        for row in found
        for peer_id in pairs[row.room_id] - {agent_id}
    ]


def count_unread_of(conn: Connection, agent_id: str, peer_id: str) -> int:
    """Return how many messages of another agent an agent has not read."""
    log_id = find_private_log(conn, agent_id, peer_id)
    return _count_unread(conn, agent_id).get(log_id, 0) if log_id is not None else 0


def _count_unread(conn: Connection, agent_id: str) -> dict[str, int]:
    """Return the numbers of messages that an agent has not read, by log."""
    query = (
        select(rows_table.c.room_id, func.count())
        .where(_unread_condition(conn, agent_id))
        .group_by(rows_table.c.room_id)
    )
    return {row[0]: row[1] for row in conn.execute(query)}


def read_last_sender(conn: Connection, agent_id: str) -> str | None:
    """Return the agent that sent the latest private message to this one."""
    query = (
        select(rows_table.c.author_id)
        .where(
            rows_table.c.room_id.in_(read_private_logs(conn, agent_id)),
            rows_table.c.author_id != agent_id,
        )
        .order_by(rows_table.c.n.desc())
        .limit(1)
    )
    return conn.execute(query).scalar()


def _unread_condition(conn: Connection, agent_id: str) -> ColumnElement[bool]:
    """Return the condition on rows: messages to the agent after the last it has read."""
    mark, marks = _read_marks(conn, agent_id)
    read_up_to = case(marks, value=rows_table.c.room_id, else_=mark) if marks else mark
    return (
        rows_table.c.room_id.in_(read_private_logs(conn, agent_id))
        & (rows_table.c.author_id != agent_id)
        & (rows_table.c.n > read_up_to)
    )


def _read_marks(conn: Connection, agent_id: str) -> tuple[int, dict[str, int]]:
    """Return the last message that an agent has read, and later ones by log."""
    agent = things.get_thing(conn, agent_id)
    metadata = agent.metadata if agent is not None else {}
    mark = metadata.get(READ_KEY, 0)
    marks = metadata.get(READ_OF_KEY, {})
    return mark, {log_id: n for log_id, n in marks.items() if n > mark}


def read_unread(conn: Connection, agent_id: str, limit: int) -> tuple[int, list[Row]]:
    """Return how many messages an agent has not read, and the last `limit` of them."""
    condition = _unread_condition(conn, agent_id)
    count = conn.execute(select(func.count()).where(condition)).scalar_one()
    query = select(rows_table).where(condition).order_by(rows_table.c.n.desc()).limit(limit)
    return count, [row_from_mapping(row) for row in conn.execute(query).mappings()][::-1]


def has_unread(conn: Connection, agent_id: str, before_ms: int) -> bool:
    """Return whether an agent has not read a message of that time or earlier."""
    condition = _unread_condition(conn, agent_id) & (rows_table.c.created_at <= before_ms)
    return conn.execute(select(rows_table.c.n).where(condition).limit(1)).first() is not None


def mark_read(tx: Change, agent_id: str, before_ms: int, peer_id: str | None = None) -> None:
    """Remember that an agent has read its messages up to a time (ms).

    `peer_id`: those of that agent alone; the others stay as they are.
    """
    condition = _unread_condition(tx.conn, agent_id) & (rows_table.c.created_at <= before_ms)
    log_id = find_private_log(tx.conn, agent_id, peer_id) if peer_id is not None else None
    if peer_id is not None:
        condition &= rows_table.c.room_id == log_id
    newest = tx.conn.execute(select(func.max(rows_table.c.n)).where(condition)).scalar()
    if newest is None:
        return
    mark, marks = _read_marks(tx.conn, agent_id)
    if log_id is None:
        _store_marks(tx, agent_id, newest, marks)
        return
    _store_marks(tx, agent_id, mark, marks | {log_id: newest})
    oldest = select(func.min(rows_table.c.n)).where(_unread_condition(tx.conn, agent_id))
    first_unread = tx.conn.execute(oldest).scalar()
    # One number says it again once nothing older is unread: marks of logs do not add up.
    up_to = max(newest, *marks.values(), mark) if first_unread is None else first_unread - 1
    _store_marks(tx, agent_id, max(mark, up_to), marks | {log_id: newest})


def _store_marks(tx: Change, agent_id: str, mark: int, marks: dict[str, int]) -> None:
    later = {log_id: n for log_id, n in marks.items() if n > mark}
    values = {READ_KEY: mark, READ_OF_KEY: later or None}
    things.set_metadata(tx, agent_id, structural=False, **values)


def send_private_message(tx: Change, from_id: str, to_id: str, text: str) -> Row:
    """Append to the log of two agents; only they get the event."""
    log_id = find_private_log(tx.conn, from_id, to_id)
    if log_id is None:
        log_id = things.create_thing(tx, "directs", "container", pair_name(from_id, to_id)).id
    return rows.append_row(
        tx,
        log_id,
        "tell",
        text,
        author_id=from_id,
        meta={"to": to_id},
        audience=frozenset({from_id, to_id}),
    )
