"""Open turns for the models that a text mentions."""

from __future__ import annotations

from collections.abc import Iterable

from sshwarma.world import notes, turns
from sshwarma.world.agents import Agent
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn


def open_turns(
    tx: Change,
    room_id: str,
    models: Iterable[Agent],
    opened_by: str,
    *,
    beside: Turn | None = None,
    root_turn_id: str | None = None,
) -> list[Turn]:
    """Open a turn for each agent in order; the first is a sibling of `beside`.

    `root_turn_id` is the first turn of the question that set them off; without one, the first of
    the new turns is.
    """
    new_turns: list[Turn] = []
    for agent in models:
        state = notes.read_notes(tx.conn, room_id, agent.name)
        new_turns.append(
            turns.open_turn(
                tx,
                room_id,
                agent.id,
                opened_by,
                state_before=state,
                beside=None if new_turns else beside,
                root_turn_id=root_turn_id or (new_turns[0].id if new_turns else None),
            )
        )
    return new_turns
