"""The window: which rows of a room's log a model sees, in whole turns.

Talk outside turns belongs to the next turn of the conversation, and is in the window with it; talk
after the last turn is always in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from sshwarma.common.limits import DEFAULT_WINDOW_TURNS, MAX_CONTEXT_TALK_ROWS, MAX_CONTEXT_TURNS
from sshwarma.world import rows as log_rows
from sshwarma.world import turns
from sshwarma.world.row import Row
from sshwarma.world.turns import Turn

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
    last_seqs = turns.read_last_seqs(conn, path, before)
    path = [turn for turn in path if turn.id in last_seqs]
    path.sort(key=lambda turn: last_seqs[turn.id])
    kept_turns = path if count == 0 else path[-count:] if count > 0 else []
    omitted_turns = path[: len(path) - len(kept_turns)]
    loose_after = max((last_seqs[turn.id] for turn in omitted_turns), default=0)
    newest_seq = log_rows.read_last_seq(conn, room_id)
    if newest_seq - loose_after > MAX_CONTEXT_TALK_ROWS:
        loose_after = (newest_seq - MAX_CONTEXT_TALK_ROWS) // TALK_STEP_ROWS * TALK_STEP_ROWS
    turn_rows = log_rows.read_window_rows(
        conn, room_id, [turn.id for turn in kept_turns], loose_after, before
    )
    request_ids = {turn.request_row_id for turn in kept_turns} - {row.id for row in turn_rows}
    shared = log_rows.read_rows_by_id(conn, [row_id for row_id in request_ids if row_id])
    model_rows = [row for row in [*turn_rows, *shared] if is_model_row(row)]
    return Window(count, tuple(kept_turns), tuple(sorted(model_rows, key=lambda row: row.seq)))


def is_model_row(row: Row) -> bool:
    """Return whether a row is shown to models: not presence, not notices, not dropped."""
    is_kind = row.kind in MODEL_ROW_KINDS or row.kind.startswith("journal.")
    return is_kind and row.status != "dropped"


def assign_turns(rows: Sequence[Row]) -> list[tuple[str | None, Row]]:
    """Return each row with its turn; for talk, the turn of the next row that has one.

    None for talk after the last turn.
    """
    pairs: list[tuple[str | None, Row]] = []
    next_turn: str | None = None
    for row in reversed(rows):
        next_turn = row.turn_id or next_turn
        pairs.append((row.turn_id or next_turn, row))
    return pairs[::-1]
