"""Dropping a turn from the conversation, and restoring it."""

from __future__ import annotations

from sqlalchemy import and_, or_, select, update

from sshwarma.world.errors import Conflict
from sshwarma.world.events import TurnsChanged
from sshwarma.world.reader import next_call
from sshwarma.world.rows import read_row_numbers
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import turns
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn


def drop_turn(tx: Change, turn: Turn) -> int:
    """Remove a turn from the conversation with its rows, which stay stored.

    Returns the number of rows. It keeps its place: the next turn still follows a dropped head, so
    that restoring brings it back to its place.

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
    count = _set_rows_status(tx, turn, "dropped")
    gone = read_row_numbers(tx.conn, [turn.id])
    tx.publish_on_commit(TurnsChanged(turn.room_id, gone=gone))
    return count


def restore_turn(tx: Change, turn: Turn) -> int:
    """Restore a dropped turn to its place, with its rows. Returns the number of rows.

    Raises:
        Conflict: if it is not dropped.
    """
    if turn.status != "dropped":
        raise Conflict(f"Turn {turn.short_id} is not dropped.")
    tx.conn.execute(update(turns).where(turns.c.id == turn.id).values(status="completed"))
    count = _set_rows_status(tx, turn, "completed")
    back = read_row_numbers(tx.conn, [turn.id])
    tx.publish_on_commit(TurnsChanged(turn.room_id, back=back))
    return count


def _set_rows_status(tx: Change, turn: Turn, status: str) -> int:
    """Set the status of a turn's rows.

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
    result = tx.conn.execute(update(rows_table).where(condition).values(status=status))
    return result.rowcount
