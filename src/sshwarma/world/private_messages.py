"""Private conversations: a log that two agents share and nobody else can read."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Connection, func, select

from sshwarma.world import rows, things
from sshwarma.world.row import Row
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change

READ_KEY: Final = "read_messages"
"""The key of an agent's metadata that holds the number of the last message that it has read."""


def pair_name(one_id: str, other_id: str) -> str:
    """Return the name of the log that two agents share, in any order of their ids."""
    return "+".join(sorted((one_id, other_id)))


def find_private_log(conn: Connection, one_id: str, other_id: str) -> str | None:
    """Return the id of the log the two agents share, if they have talked."""
    log = things.find_child(conn, "directs", pair_name(one_id, other_id), "container")
    return log.id if log else None


def read_private_logs(conn: Connection, agent_id: str, *others: str) -> list[str]:
    """Ids of an agent's private logs; with `others`, of those between all of them."""
    query = select(things_table.c.id, things_table.c.name).where(
        things_table.c.parent_id == "directs", things_table.c.name.contains(agent_id)
    )
    wanted = {agent_id, *others}
    return [log_id for log_id, name in conn.execute(query) if wanted <= set(name.split("+"))]


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
    agent = things.get_thing(conn, agent_id)
    return (
        rows_table.c.room_id.in_(read_private_logs(conn, agent_id))
        & (rows_table.c.author_id != agent_id)
        & (rows_table.c.n > (agent.metadata.get(READ_KEY, 0) if agent is not None else 0))
    )


def read_unread(conn: Connection, agent_id: str, limit: int) -> tuple[int, list[Row]]:
    """Return how many messages an agent has not read, and the last `limit` of them."""
    condition = _unread_condition(conn, agent_id)
    count = conn.execute(select(func.count()).where(condition)).scalar_one()
    query = select(rows_table).where(condition).order_by(rows_table.c.n.desc()).limit(limit)
    return count, [rows.row_from_mapping(row) for row in conn.execute(query).mappings()][::-1]


def has_unread(conn: Connection, agent_id: str, before_ms: int) -> bool:
    """Return whether an agent has not read a message of that time or earlier."""
    condition = _unread_condition(conn, agent_id) & (rows_table.c.created_at <= before_ms)
    return conn.execute(select(rows_table.c.n).where(condition).limit(1)).first() is not None


def mark_read(tx: Change, agent_id: str, before_ms: int) -> None:
    """Remember that an agent has read its messages up to a time (ms)."""
    condition = _unread_condition(tx.conn, agent_id) & (rows_table.c.created_at <= before_ms)
    newest = tx.conn.execute(select(func.max(rows_table.c.n)).where(condition)).scalar()
    if newest is not None:
        things.set_metadata(tx, agent_id, structural=False, **{READ_KEY: newest})


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
