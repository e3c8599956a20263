"""Turns: the atomic groups of rows that an answer is made of.

A mention opens one; every row the mentioned agent produces until it stops belongs to it. Turns of
different agents in one room run side by side, and each row says which is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import insert, select, update

from sshwarma.world import rows
from sshwarma.world.ids import new_id
from sshwarma.world.schema import turns
from sshwarma.world.store import Change

Status = Literal["open", "completed", "dropped", "cancelled"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an agent in a room, opened by whoever mentioned it."""

    id: str
    room_id: str
    agent_id: str
    opened_by: str | None
    status: Status = "open"
    parent_turn_id: str | None = None


def open_turn(tx: Change, room_id: str, agent_id: str, opened_by: str | None) -> Turn:
    """Open a turn after the room's newest one."""
    newest = (
        select(turns.c.id)
        .where(turns.c.room_id == room_id, turns.c.status != "dropped")
        .order_by(turns.c.created_at.desc(), turns.c.id.desc())
        .limit(1)
    )
    parent = tx.conn.execute(newest).scalar()
    turn = Turn(new_id(), room_id, agent_id, opened_by, parent_turn_id=parent)
    tx.conn.execute(
        insert(turns).values(
            id=turn.id,
            room_id=room_id,
            agent_id=agent_id,
            opened_by=opened_by,
            parent_turn_id=parent,
            created_at=tx.now,
        )
    )
    return turn


def close_turn(tx: Change, turn_id: str, status: Status) -> None:
    """End a turn that is open."""
    tx.conn.execute(
        update(turns)
        .where(turns.c.id == turn_id, turns.c.status == "open")
        .values(status=status, closed_at=tx.now)
    )


def cancel_left_open(tx: Change) -> int:
    """Close the turns a crash has cut, each with a notice in its room. How many there were."""
    query = select(turns.c.id, turns.c.room_id, turns.c.agent_id).where(turns.c.status == "open")
    left = tx.conn.execute(query).all()
    for turn_id, room_id, agent_id in left:
        close_turn(tx, turn_id, "cancelled")
        text = "was cut off when the server stopped"
        rows.append(tx, room_id, "notice", text, author_id=agent_id, turn_id=turn_id)
    return len(left)
