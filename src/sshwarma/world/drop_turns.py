"""Dropping a turn from the conversation, and restoring it.

The row that tells of it holds which rows it changed, so that programs can hear it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import and_, or_, select, update

from sshwarma.world.errors import Conflict
from sshwarma.world.events import TurnsChanged
from sshwarma.world.reader import next_call
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import turns
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn

CHANGED_ROWS_KEY: Final = "changed_rows"
"""The key of a row's metadata that holds which rows left the conversation or came back."""


def record_changed_rows(gone: Iterable[int] = (), back: Iterable[int] = ()) -> dict[str, Any]:
    """Return metadata that says which rows left the conversation or came back."""
    return {CHANGED_ROWS_KEY: {"gone": list(gone), "back": list(back)}}


def read_changed_rows(meta: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the numbers of the rows that left the conversation, and that came back.

    None if the row with this metadata is about no such change.
    """
    found = meta.get(CHANGED_ROWS_KEY)
    return None if found is None else (tuple(found["gone"]), tuple(found["back"]))


def drop_turn(tx: Change, turn: Turn) -> tuple[int, ...]:
    """Remove a turn from the conversation with its rows, which stay stored.

    Returns the numbers of the rows. It keeps its place: the next turn still follows a dropped
    head, so that restoring brings it back to its place.

    Raises:
        Conflict: if it is still running, or already dropped.
    """
    if turn.status == "open":
        raise Conflict(
            f"Turn {turn.short_id} is still running.", hint=next_call("Stop it with {}.", "stop")
        )
    if turn.status == "dropped":
        raise Conflict(
            f"Turn {turn.short_id} is already dropped.",
            hint=next_call("{} restores it.", "message restore", turn=turn.short_id),
        )
    tx.conn.execute(update(turns).where(turns.c.id == turn.id).values(status="dropped"))
    gone = _set_rows_status(tx, turn, "dropped")
    tx.publish_on_commit(TurnsChanged(turn.room_id, gone=gone))
    return gone


def restore_turn(tx: Change, turn: Turn) -> tuple[int, ...]:
    """Restore a dropped turn to its place; return the numbers of its rows.

    Raises:
        Conflict: if it is not dropped.
    """
    if turn.status != "dropped":
        raise Conflict(f"Turn {turn.short_id} is not dropped.")
    tx.conn.execute(update(turns).where(turns.c.id == turn.id).values(status="completed"))
    back = _set_rows_status(tx, turn, "completed")
    tx.publish_on_commit(TurnsChanged(turn.room_id, back=back))
    return back


def _set_rows_status(tx: Change, turn: Turn, status: str) -> tuple[int, ...]:
    """Set the status of a turn's rows; return their numbers.

    The request row changes with the last of its turns.
    """
    query = select(turns.c.id).where(
        turns.c.request_row_id == turn.request_row_id,
        turns.c.id != turn.id,
        turns.c.status != "dropped",
    )
    condition = rows_table.c.turn_id == turn.id
    if turn.request_row_id is not None:
        shared = tx.conn.execute(query).first() is not None
        is_request = rows_table.c.id == turn.request_row_id
        keep = shared and status == "dropped"
        condition = and_(condition, ~is_request) if keep else or_(condition, is_request)
    change = update(rows_table).where(condition).values(status=status)
    return tuple(sorted(tx.conn.execute(change.returning(rows_table.c.seq)).scalars()))
