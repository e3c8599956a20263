"""What a model keeps for itself in a room: one text for each room and agent, stored as a data
thing in the room's container `states`, under the agent's name."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from sshwarma.world import things
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

CONTAINER: Final = "states"
ROLE: Final = "state"


def get(conn: Connection, room_id: str, agent_name: str) -> Thing | None:
    """The thing that holds an agent's state in a room."""
    container = things.child(conn, room_id, CONTAINER, "container")
    return things.child(conn, container.id, agent_name, "data") if container else None


def read(conn: Connection, room_id: str, agent_name: str) -> str:
    """An agent's state in a room; empty if it keeps none."""
    known = get(conn, room_id, agent_name)
    return (known.content or "") if known else ""


def write(tx: Change, room_id: str, agent_id: str, agent_name: str, text: str) -> None:
    """Set an agent's state in a room; nothing happens if it is that already."""
    known = get(tx.conn, room_id, agent_name)
    if known is None:
        if text:
            container = things.child(tx.conn, room_id, CONTAINER, "container")
            container = container or things.create(tx, room_id, "container", CONTAINER)
            things.create(
                tx,
                container.id,
                "data",
                agent_name,
                content=text,
                metadata={"role": ROLE, "agent_id": agent_id},
                created_by=agent_id,
            )
    elif (known.content or "") != text:
        things.change(tx, known.id, structural=False, content=text)
