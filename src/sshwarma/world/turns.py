"""Turns: the atomic groups of rows that an answer consists of.

A mention opens one; every row the mentioned agent produces until it stops belongs to it. Turns of
different agents in one room run side by side, and each row names its turn. The row of the request
belongs to the first turn it opened; every turn refers to it.

Turns form a tree: each follows the newest turn of the time it was opened. A room's head is the
newest turn that counts; the path from it to the root, without dropped turns, is the conversation.
Asking again opens a sibling; switching moves the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sqlalchemy import (
    CTE,
    Connection,
    RowMapping,
    Select,
    bindparam,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from sshwarma.common.shorten import shorten_name
from sshwarma.world import drafts, rows, things
from sshwarma.world.end_reason import SERVER_STOPPED, TURN_END_KEY
from sshwarma.world.errors import NotFound, unknown_name_error
from sshwarma.world.ids import new_id
from sshwarma.world.reader import next_call
from sshwarma.world.row import Row
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import turns
from sshwarma.world.sent_results import load_sent_characters
from sshwarma.world.store import Change

TurnStatus = Literal["open", "completed", "failed", "dropped", "cancelled"]

SHORT_ID_CHARACTERS: Final = 6
"""Characters of a turn's short id: its last ones, which are random."""

HEAD_KEY: Final = "active_leaf"
"""The key of a room's metadata that holds its head."""

MANIFEST_KEY: Final = "active_manifest_id"
"""The key of a room's metadata that names the present version of its files."""

PATH_BATCH_TURNS: Final = 64
"""Turns of a path read at once."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an agent in a room, opened by a mention.

    Times are Unix milliseconds.

    Attributes:
        state_before: The agent's notes at its start.
        root_turn_id: The first turn that the same question opened; None for that turn itself.
        provider_kind: Kind of the provider that answered, once it has ended.
        sent_characters: Of the results that no request had whole, the most characters that one
            had, by the number of the row.
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
    root_turn_id: str | None = None
    provider_kind: str | None = None
    sent_characters: Mapping[int, int] = field(default_factory=dict)

    @property
    def short_id(self) -> str:
        """The short id that people use."""
        return self.id[-SHORT_ID_CHARACTERS:]

    @property
    def question_id(self) -> str:
        """The same for all turns that one question started: the id of the first of them."""
        return self.root_turn_id or self.id

    @property
    def counts_in_window(self) -> bool:
        """Whether it takes a place: its answer is whole, or may still become so."""
        return self.status in ("open", "completed")


def open_turn(
    tx: Change,
    room_id: str,
    agent_id: str,
    opened_by: str | None,
    *,
    state_before: str = "",
    beside: Turn | None = None,
    root_turn_id: str | None = None,
) -> Turn:
    """Open a turn at the room's head and make it the head.

    It follows the newest turn that counts, or is a sibling of `beside`. `root_turn_id` is the first
    turn of the same question, if there is one before it.
    """
    room = things.get_thing(tx.conn, room_id)
    metadata = room.metadata if room is not None else {}
    parent_id = beside.parent_turn_id if beside else metadata.get(HEAD_KEY)
    turn = Turn(
        new_id(),
        room_id,
        agent_id,
        opened_by,
        parent_turn_id=parent_id,
        state_before=state_before,
        created_at=tx.now,
        root_turn_id=root_turn_id,
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
            root_turn_id=root_turn_id,
            pre_manifest_id=metadata.get(MANIFEST_KEY),
        )
    )
    set_head(tx, room_id, turn.id)
    return turn


def set_request_row(tx: Change, turn_ids: Iterable[str], row: Row) -> None:
    """Record the row that turns answer."""
    ids = list(turn_ids)
    if ids:  # a line that calls nobody is most of the talk
        tx.conn.execute(update(turns).where(turns.c.id.in_(ids)).values(request_row_id=row.id))


def close_turn(
    tx: Change, turn_id: str, status: TurnStatus, provider_kind: str | None = None
) -> None:
    """End an open turn."""
    tx.conn.execute(
        update(turns)
        .where(turns.c.id == turn_id, turns.c.status == "open")
        .values(status=status, closed_at=tx.now, provider_kind=provider_kind)
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
        rows.append_row(
            tx,
            turn.room_id,
            "notice",
            SERVER_STOPPED.text,
            author_id=turn.agent_id,
            turn_id=turn.id,
            meta={TURN_END_KEY: SERVER_STOPPED.model_text},
        )
    return len(open_turns)


# The conversation.


def read_head(conn: Connection, room_id: str) -> str | None:
    """Return the id of the room's newest turn that counts; None before the first."""
    room = things.get_thing(conn, room_id)
    head = room.metadata.get(HEAD_KEY) if room else None
    return str(head) if head else None


def set_head(tx: Change, room_id: str, turn_id: str | None) -> None:
    """Make a turn the room's newest."""
    things.set_metadata(tx, room_id, structural=False, **{HEAD_KEY: turn_id})


def read_path(
    conn: Connection, room_id: str, limit: int | None = None, *, with_dropped: bool = False
) -> list[Turn]:
    """Return the conversation's turns, oldest first: up to `limit`, from the head up.

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
            f"{shorten_name(name)} is ambiguous: several turns end in it.",
            hint="Give more of the id.",
        )
    return matches[0]


def read_siblings(conn: Connection, turn: Turn) -> list[Turn]:
    """Return a turn and those with the same predecessor, in order of opening."""
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
    """Return a turn's newest descendant or itself: the end of its conversation.

    Dropped turns are passed through.
    """
    descendants = _build_descendants(turn)
    query = (
        select(descendants)
        .where(or_(descendants.c.id == turn.id, descendants.c.status != "dropped"))
        .order_by(descendants.c.created_at.desc(), descendants.c.id.desc())
        .limit(1)
    )
    return _turn_from_row(conn.execute(query).mappings().one())


def read_descendant_ids(conn: Connection, turn: Turn) -> set[str]:
    """Return the ids of a turn and of all that follow it, on every branch."""
    return set(conn.execute(select(_build_descendants(turn).c.id)).scalars())


def _build_descendants(turn: Turn) -> CTE:
    root = select(turns).where(turns.c.id == turn.id)
    descendants = root.cte("below", recursive=True)
    return descendants.union_all(select(turns).where(turns.c.parent_turn_id == descendants.c.id))


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


def count_turns(conn: Connection, room_id: str, before: Turn | None) -> int:
    """Return the number of a room's turns that count, in all or opened before one."""
    query = (
        select(func.count())
        .select_from(turns)
        .where(turns.c.room_id == room_id, turns.c.status.in_(("open", "completed")))
    )
    if before is not None:
        query = query.where(turns.c.created_at < before.created_at)
    return int(conn.execute(query).scalar_one())


# What belongs to a turn.


def read_rows_with_request(conn: Connection, turn: Turn) -> list[Row]:
    """Return a turn's rows in order, its request first even if another turn owns it."""
    turn_rows = rows.read_turn_rows(conn, turn.id)
    if turn.request_row_id and all(row.id != turn.request_row_id for row in turn_rows):
        turn_rows = [*rows.read_rows_by_id(conn, [turn.request_row_id]), *turn_rows]
    return turn_rows


def read_last_seqs(
    conn: Connection, found: Sequence[Turn], before: int | None = None
) -> dict[str, int]:
    """Return each turn's last `seq` below `before`; turns without one are left out."""
    query = (
        select(rows_table.c.turn_id, func.max(rows_table.c.seq).label("seq"))
        .where(rows_table.c.turn_id.in_([turn.id for turn in found]))
        .group_by(rows_table.c.turn_id)
    )
    if before is not None:
        query = query.where(rows_table.c.seq < before)
    return {row.turn_id: row.seq for row in conn.execute(query)}


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
        root_turn_id=row["root_turn_id"],
        provider_kind=row["provider_kind"],
        sent_characters=load_sent_characters(row["sent_characters"]),
    )
