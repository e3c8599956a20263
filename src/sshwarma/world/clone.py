"""Copies of a room with its conversation; changes in them leave the room alone."""

from __future__ import annotations

import json
from typing import Final

from sqlalchemy import insert, select

from sshwarma.common.limits import MAX_CLONED_ROWS
from sshwarma.world import notes, rooms, rows, things, turns
from sshwarma.world.agents import Agent
from sshwarma.world.ids import new_id
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import turns as turns_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

_SKIPPED_KINDS: Final = ("presence", "tell")


def clone_room(tx: Change, source_id: str, name: str, owner: Agent) -> Thing:
    """Fork a room (`rooms.fork_room`) with its log, its turns and the models' notes.

    Rows and turns get new ids; their cost is not counted again.

    Raises:
        Invalid, Conflict: as `rooms.create_room`.
    """
    room = rooms.fork_room(tx, source_id, name, owner)
    turn_ids = _clone_turns(tx, source_id, room.id)
    row_ids = _clone_rows(tx, source_id, room.id, turn_ids)
    for turn in turns.read_newest_turns(tx.conn, room.id, len(turn_ids)):
        request = row_ids.get(turn.request_row_id or "")
        tx.conn.execute(
            turns_table.update().where(turns_table.c.id == turn.id).values(request_row_id=request)
        )
    head = turns.read_head(tx.conn, source_id)
    turns.set_head(tx, room.id, turn_ids.get(head or ""))
    size = things.get_live_thing(tx.conn, source_id).metadata.get("context_size")
    if size is not None:
        things.set_metadata(tx, room.id, context_size=size)
    container = things.find_child(tx.conn, source_id, notes.NOTES_CONTAINER, "container")
    for state in things.read_children(tx.conn, container.id, "data") if container else ():
        agent_id = str(state.metadata.get("agent_id"))
        notes.write_notes(tx, room.id, agent_id, state.name, state.content or "")
    return room


def _clone_turns(tx: Change, source_id: str, room_id: str) -> dict[str, str]:
    """Copy the turns; return the new ids by old ones.

    A running turn is cancelled in the copy.
    """
    source_turns = turns.read_newest_turns(tx.conn, source_id, MAX_CLONED_ROWS)
    ids = {turn.id: new_id() for turn in source_turns}
    for turn in source_turns:
        tx.conn.execute(
            insert(turns_table).values(
                id=ids[turn.id],
                room_id=room_id,
                parent_turn_id=ids.get(turn.parent_turn_id or ""),
                agent_id=turn.agent_id,
                opened_by=turn.opened_by,
                status="cancelled" if turn.status == "open" else turn.status,
                state_before=turn.state_before,
                created_at=turn.created_at,
                closed_at=tx.now,
                request_row_id=turn.request_row_id,
                root_turn_id=ids.get(turn.root_turn_id or ""),
                provider_kind=turn.provider_kind,
            )
        )
    return ids


def _clone_rows(
    tx: Change, source_id: str, room_id: str, turn_ids: dict[str, str]
) -> dict[str, str]:
    """Copy the rows in order, numbered from 1; returns new ids by old."""
    query = (
        select(rows_table)
        .where(rows_table.c.room_id == source_id, rows_table.c.kind.not_in(_SKIPPED_KINDS))
        .order_by(rows_table.c.seq.desc())
        .limit(MAX_CLONED_ROWS)
    )
    source_rows = [rows.row_from_mapping(row) for row in tx.conn.execute(query).mappings()][::-1]
    ids = {row.id: new_id() for row in source_rows}
    for row in source_rows:
        seq = tx.next_seq(room_id, rows.read_last_seq)
        meta = dict(row.meta)
        if "call_id" in meta:
            meta["call_id"] = ids.get(str(meta["call_id"]))
        tx.conn.execute(
            insert(rows_table).values(
                id=ids[row.id],
                room_id=room_id,
                seq=seq,
                turn_id=turn_ids.get(row.turn_id or ""),
                parent_row_id=ids.get(row.parent_row_id or ""),
                author_id=row.author_id,
                kind=row.kind,
                status=row.status,
                content=row.content,
                meta=json.dumps(meta, ensure_ascii=False) if meta else None,
                created_at=row.created_at,
            )
        )
    return ids
