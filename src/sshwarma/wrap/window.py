"""Which rows of a room's log a model sees: whole turns, and the talk between them.

Talk that belongs to no turn is adopted by the next turn, and so is in the window with it; what was
said after the last turn is always there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sshwarma.world.events import Row

DEFAULT_TURNS: Final = 5

SHOWN_KINDS: Final = ("chat", "emote", "tool.call", "tool.result", "tool.error", "tool.timeout")


def visible(rows: Iterable[Row], dropped: frozenset[str] = frozenset()) -> list[Row]:
    """Rows that can be told to a model: not presence, not notices, not dropped."""
    return [
        row
        for row in rows
        if (row.kind in SHOWN_KINDS or row.kind.startswith("journal."))
        and row.status != "dropped"
        and row.turn_id not in dropped
    ]


def window(rows: Sequence[Row], turns: int) -> list[Row]:
    """The rows of the last `turns` turns and all the talk from the first of them on. 0 is all of
    it; -1 only the talk after the last turn."""
    if turns == 0:
        return list(rows)
    order: list[str] = []  # turns by their last row
    for row in rows:
        if row.turn_id is not None:
            if row.turn_id in order:
                order.remove(row.turn_id)
            order.append(row.turn_id)
    if not order:
        return list(rows)
    kept = frozenset(order[-turns:]) if turns > 0 else frozenset()
    selected: list[Row] = []
    loose: list[Row] = []  # talk waiting to be adopted
    for row in rows:
        if row.turn_id is None:
            loose.append(row)
        elif row.turn_id in kept:
            selected += [*loose, row]
            loose = []
        else:
            loose = []
    return [*selected, *loose]
