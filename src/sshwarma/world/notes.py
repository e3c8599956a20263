"""A model's own notes about a room: one text for each room and agent.

Stored as a data thing in the room's container `states`, under the agent's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection

from sshwarma.world import things, turns
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.turns import Turn

NOTES_CONTAINER: Final = "states"
NOTES_ROLE: Final = "state"


def get_notes_thing(conn: Connection, room_id: str, agent_name: str) -> Thing | None:
    """Return the thing that holds an agent's notes in a room."""
    container = things.find_child(conn, room_id, NOTES_CONTAINER, "container")
    return things.find_child(conn, container.id, agent_name, "data") if container else None


def read_notes(conn: Connection, room_id: str, agent_name: str) -> str:
    """Return an agent's notes in a room; empty if it has none."""
    thing = get_notes_thing(conn, room_id, agent_name)
    return (thing.content or "") if thing else ""


def read_answer_notes(conn: Connection, answers: Iterable[Turn]) -> str | None:
    """Return the notes that the newest answer set; None if no answer set any.

    `answers` are turns of one model, newest first.
    """
    for turn in answers:
        for row in reversed(turns.read_rows_with_request(conn, turn)):
            if row.author_id == turn.agent_id and "state" in row.meta:
                return str(row.meta["state"])
    return None


def write_notes(tx: Change, room_id: str, agent_id: str, agent_name: str, text: str) -> None:
    """Set an agent's notes in a room; do nothing if they are unchanged."""
    thing = get_notes_thing(tx.conn, room_id, agent_name)
    if thing is None:
        if text:
            container = things.find_child(tx.conn, room_id, NOTES_CONTAINER, "container")
            container = container or things.create_thing(tx, room_id, "container", NOTES_CONTAINER)
            things.create_thing(
                tx,
                container.id,
                "data",
                agent_name,
                content=text,
                metadata={"role": NOTES_ROLE, "agent_id": agent_id},
                created_by=agent_id,
            )
    elif (thing.content or "") != text:
        things.update_thing(tx, thing.id, structural=False, content=text)
