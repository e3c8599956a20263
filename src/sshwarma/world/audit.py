"""The audit: one row for each change, with its author, place and request."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import insert

from sshwarma.world.presence import Door
from sshwarma.world.schema import audit
from sshwarma.world.store import Change

MAX_REQUEST_CHARACTERS = 1000
"""Characters of a request that its audit row keeps."""


def record_change(
    tx: Change,
    *,
    door: Door | Literal["cli"],
    verb: str,
    request: str,
    agent_id: str | None = None,
    room_id: str | None = None,
) -> None:
    """Append the audit row of a change, in the change's own transaction.

    Args:
        tx: the change.
        door: where the request came in; "cli" is the command line on the server.
        verb: the verb's name.
        request: the line or the arguments.
        agent_id: who made it; None for an operator at the command line.
        room_id: where they stood; None without a room.
    """
    tx.conn.execute(
        insert(audit).values(
            at=tx.now,
            agent_id=agent_id,
            room_id=room_id,
            door=door,
            verb=verb,
            what=request[:MAX_REQUEST_CHARACTERS],
        )
    )
