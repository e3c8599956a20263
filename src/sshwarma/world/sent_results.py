"""How much of its results a turn is sent, where they were cut to fit a context.

Later turns keep as much of them, where the tool says KEEP (`world/leave_out.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import update

from sshwarma.world.schema import turns
from sshwarma.world.store import Change


def record_sent_characters(tx: Change, turn_id: str, characters: Mapping[int, int]) -> None:
    """Record how many characters a turn is sent of results, by the number of the row."""
    values = {"sent_characters": json.dumps(characters)}
    tx.conn.execute(update(turns).where(turns.c.id == turn_id).values(values))


def load_sent_characters(stored: str | None) -> dict[int, int]:
    """Return what is stored of a turn; None stands for no results that were cut."""
    if stored is None:
        return {}
    return {int(seq): characters for seq, characters in json.loads(stored).items()}
