"""Private conversations: a log that two agents share and nobody else can read."""

from __future__ import annotations

from sqlalchemy import Connection, select

from sshwarma.world import rows, things
from sshwarma.world.row import Row
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change


def pair_name(one_id: str, other_id: str) -> str:
    """Return the name of the log that two agents share, in any order of their ids."""
    return "+".join(sorted((one_id, other_id)))


def find_private_log(conn: Connection, one_id: str, other_id: str) -> str | None:
    """Return the id of the log the two agents share, if they have talked."""
    log = things.find_child(conn, "directs", pair_name(one_id, other_id), "container")
    return log.id if log else None


def read_private_logs(conn: Connection, agent_id: str) -> list[str]:
    """Ids of every private log of an agent."""
    query = select(things_table.c.id, things_table.c.name).where(
        things_table.c.parent_id == "directs", things_table.c.name.contains(agent_id)
    )
    return [log_id for log_id, name in conn.execute(query) if agent_id in name.split("+")]


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
