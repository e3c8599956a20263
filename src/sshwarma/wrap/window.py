"""The window: which rows of a room's log a model sees, in whole turns.

All turns that one question started count as one; an incomplete turn is not counted.

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
from sshwarma.world.end_reason import TURN_END_KEY
from sshwarma.world.row import Row
from sshwarma.world.rows import CALL_KINDS
from sshwarma.world.turns import Turn

TALK_STEP_ROWS: Final = 250

TURNS_READ_PER_QUESTION: Final = 16
"""Turns read for each of the window: a question may start several, and the window may hold twice
its size.
"""

MAX_CONTEXT_JOURNAL_ENTRIES: Final = 20
"""Maximum number of entries of the journal, older than the log shown, that a model is sent."""

EXTRA_TURNS: Final = 8
"""Turns read beyond the window: of concurrent turns, the last to end are the newest."""

MODEL_ROW_KINDS: Final = frozenset(("chat", "emote", *CALL_KINDS))


@dataclass(frozen=True, slots=True)
class Window:
    """The chosen rows, in order, and their turns, by last row.

    Attributes:
        size: the room's setting: 0 for all turns, -1 for no turns.
        question_id: of the oldest question in it (`Turn.question_id`).
        earlier_turns: number of older turns that it leaves out.
        journal: entries of the room's journal that are older than the rows.
    """

    size: int
    turns: tuple[Turn, ...] = ()
    rows: tuple[Row, ...] = ()
    question_id: str = ""
    earlier_turns: int = 0
    journal: tuple[Row, ...] = ()


def read_window(
    conn: Connection,
    room_id: str,
    size: int | None,
    before: int | None = None,
    *,
    since: str = "",
) -> Window:
    """Return the window of a room before a `seq`.

    Args:
        conn: The connection.
        room_id: The room.
        size: The room's setting. None is the default, which slides in steps.
        before: Only rows with a lower `seq`.
        since: The `question_id` that the window last began with. A window of the default size still
            begins there until it has twice the turns, so that most requests begin like the one
            before them.
    """
    count = DEFAULT_WINDOW_TURNS if size is None else size
    path, last_seqs = _read_path(conn, room_id, count, before)
    questions = list(dict.fromkeys(turn.question_id for turn in path if turn.counts_in_window))
    kept_count = min(len(questions), count) if count else len(questions)
    if size is None and since in questions:
        since_count = len(questions) - questions.index(since)
        if kept_count < since_count < 2 * count:
            kept_count = since_count
    kept = questions[-kept_count:] if kept_count > 0 else []
    first = 0  # a turn without an answer is shown beside those of the window
    if len(kept) < len(questions) or count < 0:
        first = next((n for n, turn in enumerate(path) if turn.question_id in kept), len(path))
    kept_turns, omitted_turns = path[first:], path[:first]
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
    model_rows.sort(key=lambda row: row.seq)
    oldest_turn = min(kept_turns, key=lambda turn: turn.created_at, default=None)
    return Window(
        count,
        tuple(kept_turns),
        tuple(model_rows),
        question_id=kept[0] if kept else "",
        earlier_turns=turns.count_turns(conn, room_id, oldest_turn) if omitted_turns else 0,
        journal=_read_older_journal(conn, room_id, model_rows, before),
    )


def _read_path(
    conn: Connection, room_id: str, count: int, before: int | None
) -> tuple[list[Turn], dict[str, int]]:
    """Return the newest turns with rows, by last row, and each one's last `seq`."""
    several = min(MAX_CONTEXT_TURNS, TURNS_READ_PER_QUESTION * count)
    limit = MAX_CONTEXT_TURNS if count == 0 else max(count, several, 0) + EXTRA_TURNS
    path = turns.read_path(conn, room_id, limit + 1)
    last_seqs = turns.read_last_seqs(conn, path, before)
    path = [turn for turn in path if turn.id in last_seqs]
    path.sort(key=lambda turn: last_seqs[turn.id])
    return path, last_seqs


def _read_older_journal(
    conn: Connection, room_id: str, shown: Sequence[Row], before: int | None
) -> tuple[Row, ...]:
    """Return the newest entries of the journal that are older than the rows shown."""
    first_seq = shown[0].seq if shown else before
    entries = log_rows.read_tail(
        conn, room_id, MAX_CONTEXT_JOURNAL_ENTRIES, before=first_seq, prefix="journal."
    )
    return tuple(row for row in entries if is_model_row(row))


def is_model_row(row: Row) -> bool:
    """Return whether a row is shown to models.

    Not presence, no dropped rows, and of notices only why a turn has no whole answer.
    """
    is_kind = row.kind in MODEL_ROW_KINDS or row.kind.startswith("journal.")
    is_turn_end = row.kind == "notice" and TURN_END_KEY in row.meta
    return (is_kind or is_turn_end) and row.status != "dropped"
