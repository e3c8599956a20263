"""Turning a trigger on, from this moment on."""

from __future__ import annotations

from sshwarma.events.matching_rows import read_end_cursor
from sshwarma.world import triggers
from sshwarma.world.caller import Caller
from sshwarma.world.loadout import read_states
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.triggers import Position


def turn_on_now(tx: Change, caller: Caller, script: Thing) -> None:
    """Turn the trigger of a text on, with the caller's rights.

    The states that its room has now, set and detected, are no change for it.

    Raises:
        Unavailable: if the room or the caller has too many.
    """
    room_id = script.parent_id or ""
    states = read_states(tx.conn, room_id) | caller.world.detected_states(room_id)
    position = Position(read_end_cursor(tx.conn, room_id), tx.now, states)
    triggers.turn_on(tx, script, caller.agent.id, position)
