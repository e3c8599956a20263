"""The last row of each room that somebody has seen in a browser."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_SEEN_ROOMS
from sshwarma.world import things
from sshwarma.world.store import Change

SEEN_KEY: Final = "seen_rows"
"""The key of an agent's metadata with pairs of a room and a number; the newest comes last."""


def read_seen(conn: Connection, agent_id: str) -> dict[str, int]:
    """Return the number of the last row that an agent has seen in each room."""
    agent = things.get_thing(conn, agent_id)
    found = agent.metadata.get(SEEN_KEY) if agent is not None and agent.is_readable else None
    return dict(found) if isinstance(found, list) else {}


def note_seen(tx: Change, agent_id: str, room_id: str, seq: int) -> None:
    """Remember that an agent has seen the rows of a room up to a number.

    Of more than MAX_SEEN_ROOMS rooms, those are forgotten that were seen longest ago.
    """
    seen = read_seen(tx.conn, agent_id)
    seq = max(seq, seen.pop(room_id, 0))
    kept = [*seen.items(), (room_id, seq)][-MAX_SEEN_ROOMS:]
    things.set_metadata(tx, agent_id, structural=False, **{SEEN_KEY: [list(pair) for pair in kept]})
