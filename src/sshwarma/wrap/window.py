"""The window: which rows of a room's log a model sees, in whole turns.

Talk outside turns belongs to the next turn of the conversation, and is in the window with it; talk
after the last turn is always in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CONTEXT_TALK_ROWS, MAX_CONTEXT_TURNS
from sshwarma.world import rows as log_rows
from sshwarma.world import turns
from sshwarma.world.row import Row
from sshwarma.world.turns import Turn

DEFAULT_WINDOW_TURNS: Final = 5

TALK_STEP_ROWS: Final = 250

EXTRA_TURNS: Final = 8
"""Turns read beyond the window: of concurrent turns, the last to end are the newest."""

MODEL_ROW_KINDS: Final = frozenset(
    ("chat", "emote", "tool.call", "tool.result", "tool.error", "tool.timeout")
)


@dataclass(frozen=True, slots=True)
class Window:
    """The chosen rows, in order, and their turns, by last row.

    `size` is the room's setting: 0 for all turns, -1 for no turns.
    """

    size: int
    turns: tuple[Turn, ...] = ()
    rows: tuple[Row, ...] = ()


def read_window(
    conn: Connection, room_id: str, size: int | None, before: int | None = None
) -> Window:
    """Return the window of a room before a `seq`. `size` None is the default size."""
    count = DEFAULT_WINDOW_TURNS if size is None else size
    limit = MAX_CONTEXT_TURNS if count == 0 else max(count, 0) + EXTRA_TURNS
    path = turns.read_path(conn, room_id, limit + 1)
    last = turns.read_last_seqs(conn, path, before)
    path = [turn for turn in path if turn.id in last]
    path.sort(key=lambda turn: last[turn.id])
    kept = path if count == 0 else path[-count:] if count > 0 else []
    left = path[: len(path) - len(kept)]
    loose_after = max((last[turn.id] for turn in left), default=0)
    newest = log_rows.read_last_seq(conn, room_id)
    if newest - loose_after > MAX_CONTEXT_TALK_ROWS:
        loose_after = (newest - MAX_CONTEXT_TALK_ROWS) // TALK_STEP_ROWS * TALK_STEP_ROWS
    read = log_rows.read_window_rows(conn, room_id, [turn.id for turn in kept], loose_after, before)
    asked = {turn.request_row_id for turn in kept} - {row.id for row in read}
    shared = log_rows.read_rows_by_id(conn, [row_id for row_id in asked if row_id])
    found = [row for row in [*read, *shared] if is_model_row(row)]
    return Window(count, tuple(kept), tuple(sorted(found, key=lambda row: row.seq)))


def is_model_row(row: Row) -> bool:
    """Return whether a row is shown to models: not presence, not notices, not dropped."""
    is_kind = row.kind in MODEL_ROW_KINDS or row.kind.startswith("journal.")
    return is_kind and row.status != "dropped"


def assign_turns(rows: Sequence[Row]) -> list[tuple[str | None, Row]]:
    """Return each row with its turn; for talk, the turn of the next row that has one.

    None for talk after the last turn.
    """
    found: list[tuple[str | None, Row]] = []
    next_turn: str | None = None
    for row in reversed(rows):
        next_turn = row.turn_id or next_turn
        found.append((row.turn_id or next_turn, row))
    return found[::-1]
