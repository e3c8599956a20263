"""Turns: the atomic groups of rows that an answer consists of.

A mention opens one; every row the mentioned agent produces until it stops belongs to it. Turns of
different agents in one room run side by side, and each row names its turn. The row of the request
belongs to the first turn it opened; every turn refers to it.

Turns form a tree: each follows the newest turn of the time it was opened. A room's head is the
newest turn that counts; the path from it to the root, without dropped turns, is the conversation.
Asking again opens a sibling; switching moves the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from sshwarma.world import drafts, rows, things
from sshwarma.world.errors import Conflict, NotFound, unknown_name_error
from sshwarma.world.events import TurnsChanged
from sshwarma.world.ids import new_id
from sshwarma.world.reader import next_call
from sshwarma.world.row import Row
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import turns
from sshwarma.world.store import Change

TurnStatus = Literal["open", "completed", "dropped", "cancelled"]

SHORT_ID_CHARACTERS: Final = 6
"""Characters of a turn's short id: its last ones, which are random."""

HEAD_KEY: Final = "active_leaf"
"""The key of a room's metadata that holds its head."""

PATH_BATCH_TURNS: Final = 64
"""Turns of a path read at once."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an agent in a room, opened by a mention. Times are Unix milliseconds.

    `state_before` is the agent's notes at its start.
    """

    id: str
    room_id: str
    agent_id: str
    opened_by: str | None
    status: TurnStatus = "open"
    parent_turn_id: str | None = None
    request_row_id: str | None = None
    state_before: str | None = None
    created_at: int = 0

    @property
    def short_id(self) -> str:
        """The short id that people use."""
        return self.id[-SHORT_ID_CHARACTERS:]


def open_turn(
    tx: Change,
    room_id: str,
    agent_id: str,
    opened_by: str | None,
    *,
    state_before: str = "",
    beside: Turn | None = None,
) -> Turn:
    """Open a turn at the room's head and make it the head.

    It follows the newest turn that counts, or is a sibling of `beside`.
    """
    parent_id = beside.parent_turn_id if beside else read_head(tx.conn, room_id)
    turn = Turn(
        new_id(),
        room_id,
        agent_id,
        opened_by,
        parent_turn_id=parent_id,
        state_before=state_before,
        created_at=tx.now,
    )
    tx.conn.execute(
        insert(turns).values(
            id=turn.id,
            room_id=room_id,
            agent_id=agent_id,
            opened_by=opened_by,
            parent_turn_id=parent_id,
            state_before=state_before,
            created_at=tx.now,
        )
    )
    set_head(tx, room_id, turn.id)
    return turn


def set_request_row(tx: Change, turn_ids: Iterable[str], row: Row) -> None:
    """Record the row that turns answer."""
    tx.conn.execute(
        update(turns).where(turns.c.id.in_(list(turn_ids))).values(request_row_id=row.id)
    )


def close_turn(tx: Change, turn_id: str, status: TurnStatus) -> None:
    """End an open turn."""
    tx.conn.execute(
        update(turns)
        .where(turns.c.id == turn_id, turns.c.status == "open")
        .values(status=status, closed_at=tx.now)
    )


def cancel_open_turns(tx: Change) -> int:
    """Close the turns that a crash interrupted; returns their number.

    Each keeps the known part of its answer, and its room gets a notice.
    """
    query = select(turns).where(turns.c.status == "open").order_by(turns.c.id)
    open_turns = [_turn_from_row(row) for row in tx.conn.execute(query).mappings()]
    for turn in open_turns:
        close_turn(tx, turn.id, "cancelled")
        draft = drafts.pop_draft(tx, turn.id)
        if draft:
            rows.append_row(
                tx,
                turn.room_id,
                "chat",
                draft,
                author_id=turn.agent_id,
                turn_id=turn.id,
                parent_row_id=turn.request_row_id,
                meta={"cut": True},
            )
        text = "was cut off when the server stopped"
        rows.append_row(tx, turn.room_id, "notice", text, author_id=turn.agent_id, turn_id=turn.id)
    return len(open_turns)


# The conversation.


def read_head(conn: Connection, room_id: str) -> str | None:
    """Return the id of the room's newest turn that counts; None before the first turn."""
    room = things.get_thing(conn, room_id)
    head = room.metadata.get(HEAD_KEY) if room else None
    return str(head) if head else None


def set_head(tx: Change, room_id: str, turn_id: str | None) -> None:
    """Make a turn the room's newest."""
    things.set_metadata(tx, room_id, structural=False, **{HEAD_KEY: turn_id})


def read_path(
    conn: Connection, room_id: str, limit: int | None = None, *, with_dropped: bool = False
) -> list[Turn]:
    """Return the turns of the conversation, oldest first: up to `limit`, from the head upwards.

    Dropped turns are included only on request.
    """
    path: list[Turn] = []
    turn_id = read_head(conn, room_id)
    while turn_id is not None and (limit is None or len(path) < limit):
        batch = _read_ancestors(
            conn, turn_id, PATH_BATCH_TURNS if limit is None else min(limit, PATH_BATCH_TURNS)
        )
        if not batch:
            break
        path += [turn for turn in batch if with_dropped or turn.status != "dropped"]
        turn_id = batch[-1].parent_turn_id
    return path[:limit][::-1]


def _build_ancestors_query() -> Select[Any]:
    leaf = select(turns, literal_column("1").label("depth")).where(turns.c.id == bindparam("leaf"))
    chain = leaf.cte("above", recursive=True)
    parents = select(turns, chain.c.depth + 1).where(
        turns.c.id == chain.c.parent_turn_id, chain.c.depth < bindparam("most")
    )
    union = chain.union_all(parents)
    return select(union).order_by(union.c.depth)


_ANCESTORS_QUERY: Final = _build_ancestors_query()
"""Built once: building it takes longer than running it, and every composed context needs it."""


def _read_ancestors(conn: Connection, turn_id: str, limit: int) -> list[Turn]:
    """Return a turn and its predecessors, nearest first, up to `limit`."""
    result = conn.execute(_ANCESTORS_QUERY, {"leaf": turn_id, "most": limit})
    return [_turn_from_row(row) for row in result.mappings()]


def read_newest_turns(conn: Connection, room_id: str, limit: int) -> list[Turn]:
    """Return the latest turns, on the path or off it, dropped or not; oldest first."""
    query = (
        select(turns)
        .where(turns.c.room_id == room_id)
        .order_by(turns.c.created_at.desc(), turns.c.id.desc())
        .limit(limit)
    )
    return [_turn_from_row(row) for row in conn.execute(query).mappings()][::-1]


def find_turn(conn: Connection, room_id: str, name: str) -> Turn:
    """Return the turn of a room by its id or the end of it.

    Raises:
        NotFound: if no turn matches, or several do.
    """
    query = select(turns).where(
        turns.c.room_id == room_id, turns.c.id.endswith(name.lower(), autoescape=True)
    )
    matches = (
        [_turn_from_row(row) for row in conn.execute(query.limit(2)).mappings()] if name else []
    )
    if not matches:
        raise unknown_name_error(
            "turn", name, where="in this room", hint=next_call("{} lists them.", "message list")
        )
    if len(matches) > 1:
        raise NotFound(
            f"{name[:40]} is ambiguous: several turns end in it.", hint="Give more of the id."
        )
    return matches[0]


def read_siblings(conn: Connection, turn: Turn) -> list[Turn]:
    """Return the turns with the same predecessor, this one among them, in order of opening."""
    condition = (
        turns.c.parent_turn_id.is_(None)
        if turn.parent_turn_id is None
        else turns.c.parent_turn_id == turn.parent_turn_id
    )
    query = (
        select(turns)
        .where(turns.c.room_id == turn.room_id, condition)
        .order_by(turns.c.created_at, turns.c.id)
    )
    return [_turn_from_row(row) for row in conn.execute(query).mappings()]


def find_leaf(conn: Connection, turn: Turn) -> Turn:
    """Return the newest descendant of a turn, or the turn itself: the end of its conversation.

    Dropped turns are passed through.
    """
    root = select(turns).where(turns.c.id == turn.id)
    descendants = root.cte("below", recursive=True)
    descendants = descendants.union_all(
        select(turns).where(turns.c.parent_turn_id == descendants.c.id)
    )
    query = (
        select(descendants)
        .where(or_(descendants.c.id == turn.id, descendants.c.status != "dropped"))
        .order_by(descendants.c.created_at.desc(), descendants.c.id.desc())
        .limit(1)
    )
    return _turn_from_row(conn.execute(query).mappings().one())


def read_other_answers(conn: Connection, turn: Turn) -> list[Turn]:
    """Return the other turns that answer the same row, without dropped ones."""
    if turn.request_row_id is None:
        return []
    query = (
        select(turns)
        .where(
            turns.c.room_id == turn.room_id,
            turns.c.request_row_id == turn.request_row_id,
            turns.c.id != turn.id,
            turns.c.status != "dropped",
        )
        .order_by(turns.c.created_at, turns.c.id)
    )
    return [_turn_from_row(row) for row in conn.execute(query).mappings()]


# What belongs to a turn.


def read_rows_with_request(conn: Connection, turn: Turn) -> list[Row]:
    """Return the rows of a turn in order, its request first even if another turn owns it."""
    turn_rows = rows.read_turn_rows(conn, turn.id)
    if turn.request_row_id and all(row.id != turn.request_row_id for row in turn_rows):
        turn_rows = [*rows.read_rows_by_id(conn, [turn.request_row_id]), *turn_rows]
    return turn_rows


def read_last_seqs(
    conn: Connection, found: Sequence[Turn], before: int | None = None
) -> dict[str, int]:
    """Return the `seq` of each turn's last row below `before`; turns without one are left out."""
    query = (
        select(rows_table.c.turn_id, func.max(rows_table.c.seq).label("seq"))
        .where(rows_table.c.turn_id.in_([turn.id for turn in found]))
        .group_by(rows_table.c.turn_id)
    )
    if before is not None:
        query = query.where(rows_table.c.seq < before)
    return {row.turn_id: row.seq for row in conn.execute(query)}


# Taking back.


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
    tx.publish_on_commit(TurnsChanged(turn.room_id))
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
    tx.publish_on_commit(TurnsChanged(turn.room_id))
    return count


def _set_rows_status(tx: Change, turn: Turn, status: str) -> int:
    """Set the status of a turn's rows. The request row changes with the last of its turns."""
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


def _turn_from_row(row: RowMapping) -> Turn:
    return Turn(
        id=row["id"],
        room_id=row["room_id"],
        agent_id=row["agent_id"],
        opened_by=row["opened_by"],
        status=row["status"],
        parent_turn_id=row["parent_turn_id"],
        request_row_id=row["request_row_id"],
        state_before=row["state_before"],
        created_at=row["created_at"],
    )
