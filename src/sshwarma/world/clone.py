"""Copies of a room with its conversation; changes in them leave the room alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert, select

from sshwarma.common.limits import MAX_CLONED_ROWS
from sshwarma.world import memory, notes, rooms, rows, sent_results, things, turns
from sshwarma.world.agents import Agent
from sshwarma.world.ids import new_id
from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import turns as turns_table
from sshwarma.world.store import Change
from sshwarma.world.stored_json import dump_metadata
from sshwarma.world.things import Thing
from sshwarma.world.turns import Turn

_SKIPPED_KINDS: Final = ("presence", "tell")


def clone_room(tx: Change, source_id: str, name: str, owner: Agent) -> Thing:
    """Fork a room (`rooms.fork_room`) with its conversation and session memory.

    Rows and turns get new ids; their cost is not counted again.

    Raises:
        Invalid, Conflict: as `rooms.create_room`.
    """
    room = rooms.fork_room(tx, source_id, name, owner)
    source_turns = turns.read_newest_turns(tx.conn, source_id, MAX_CLONED_ROWS)
    source_rows = _read_newest_rows(tx.conn, source_id)
    turn_ids = {turn.id: new_id() for turn in source_turns}
    row_ids = {row.id: new_id() for row in source_rows}
    _clone_turns(tx, room.id, source_turns, turn_ids, row_ids)
    numbers = _clone_rows(tx, room.id, source_rows, turn_ids, row_ids)
    for turn in source_turns:
        sent = turn.sent_characters.items()
        if copied := {numbers[seq]: count for seq, count in sent if seq in numbers}:
            sent_results.record_sent_characters(tx, turn_ids[turn.id], copied)
    head = turns.read_head(tx.conn, source_id)
    turns.set_head(tx, room.id, turn_ids.get(head or ""))
    size = things.get_live_thing(tx.conn, source_id).metadata.get("context_size")
    if size is not None:
        things.set_metadata(tx, room.id, context_size=size)
    container = things.find_child(tx.conn, source_id, notes.NOTES_CONTAINER, "container")
    for state in things.read_children(tx.conn, container.id, "data") if container else ():
        agent_id = str(state.metadata.get("agent_id"))
        notes.write_notes(tx, room.id, agent_id, state.name, state.content or "")
    values = memory.find_session_container(tx.conn, source_id)
    if values is not None:
        own = memory.get_or_create_session_container(tx, room.id)
        rooms.copy_texts(tx, values.id, own.id, owner.id)
    return room


def count_copied_bytes(conn: Connection, room_id: str) -> int:
    """Return the bytes of what a clone copies: things, log, notes, session memory."""
    containers = (
        things.find_child(conn, room_id, notes.NOTES_CONTAINER, "container"),
        memory.find_session_container(conn, room_id),
    )
    return (
        rooms.count_copied_bytes(conn, room_id)
        + sum(rooms.count_copied_bytes(conn, one.id) for one in containers if one is not None)
        + rows.count_bytes(conn, room_id, MAX_CLONED_ROWS)
    )


def _read_newest_rows(conn: Connection, room_id: str) -> list[Row]:
    """Return the rows that a clone of a room gets, oldest first."""
    query = (
        select(rows_table)
        .where(rows_table.c.room_id == room_id, rows_table.c.kind.not_in(_SKIPPED_KINDS))
        .order_by(rows_table.c.seq.desc())
        .limit(MAX_CLONED_ROWS)
    )
    return [row_from_mapping(row) for row in conn.execute(query).mappings()][::-1]


def _clone_turns(
    tx: Change,
    room_id: str,
    source_turns: Sequence[Turn],
    turn_ids: Mapping[str, str],
    row_ids: Mapping[str, str],
) -> None:
    """Copy turns with new ids; a running one is cancelled in the copy."""
    copies = [
        {
            "id": turn_ids[turn.id],
            "room_id": room_id,
            "parent_turn_id": turn_ids.get(turn.parent_turn_id or ""),
            "agent_id": turn.agent_id,
            "opened_by": turn.opened_by,
            "status": "cancelled" if turn.status == "open" else turn.status,
            "state_before": turn.state_before,
            "created_at": turn.created_at,
            "closed_at": tx.now,
            "request_row_id": row_ids.get(turn.request_row_id or ""),
            "root_turn_id": turn_ids.get(turn.root_turn_id or ""),
            "provider_kind": turn.provider_kind,
        }
        for turn in source_turns
    ]
    if copies:
        tx.conn.execute(insert(turns_table), copies)


def _clone_rows(
    tx: Change,
    room_id: str,
    source_rows: Sequence[Row],
    turn_ids: Mapping[str, str],
    row_ids: Mapping[str, str],
) -> dict[int, int]:
    """Copy rows in their order, with new ids and numbers; return the new numbers."""
    copies: list[dict[str, Any]] = []
    for row in source_rows:
        meta = dict(row.meta)
        if "call_id" in meta:
            meta["call_id"] = row_ids.get(str(meta["call_id"]))
        copies.append(
            {
                "id": row_ids[row.id],
                "room_id": room_id,
                "seq": tx.next_seq(room_id),
                "n": tx.next_n(),
                "turn_id": turn_ids.get(row.turn_id or ""),
                "parent_row_id": row_ids.get(row.parent_row_id or ""),
                "author_id": row.author_id,
                "kind": row.kind,
                "status": row.status,
                "content": row.content,
                "meta": dump_metadata(meta),
                "created_at": row.created_at,
            }
        )
    if copies:
        tx.conn.execute(insert(rows_table), copies)
    return {row.seq: copy["seq"] for row, copy in zip(source_rows, copies, strict=True)}
