"""Rows, turns and usage of an import.

Ids of rows and turns are made from those of the source, so that a known one is found by its id.
They are UUIDv5 (RFC 9562) in the room, which is the namespace.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select, update

from sshwarma.common.times import format_iso
from sshwarma.common.visible_nul import replace_nul
from sshwarma.imports.items import RowItem, UsageItem
from sshwarma.imports.taking_rooms import IMPORT_KEY, ImportRun, set_import_fields
from sshwarma.world import turns
from sshwarma.world.events import RowAppended
from sshwarma.world.row import Row
from sshwarma.world.schema import row_tags, tool_calls, usage
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import turns as turns_table
from sshwarma.world.stored_json import dump_metadata

KINDS: Final = {
    "chat": "messages", "notice": "messages", "tool.call": "tool calls",
    "tool.result": "tool results",
}  # fmt: skip
"""What a report calls the rows of each kind."""

CHANGED: Final = "changed in the source since: the room keeps what was imported"


def make_id(room_id: str, key: str) -> str:
    """Return the id of a row or turn: the same for the same key in a room."""
    return str(uuid.uuid5(uuid.UUID(room_id), key))


def take_rows(run: ImportRun, items: Sequence[RowItem]) -> None:
    """Append rows, each in its turn, except those that are known.

    In few statements: a step has hundreds of rows, and all other changes wait.
    """
    ids = [make_id(run.rooms[item.session].id, item.key) for item in items]
    columns = (rows_table.c.id, rows_table.c.content, rows_table.c.status)
    query = select(*columns).where(rows_table.c.id.in_(ids))
    known = {row.id: row for row in run.tx.conn.execute(query)}
    turn_ids = _take_turns(run, items)
    batch = _Batch()
    for item, row_id in zip(items, ids, strict=True):
        if (found := known.get(row_id)) is None:
            _add_row(run, batch, item, row_id, turn_ids.get((item.session, item.group)))
            run.report.count(KINDS[item.kind], "new")
            continue
        run.report.count(KINDS[item.kind], "known")
        is_dropped = found.status == "dropped"
        if found.content != replace_nul(item.content) or is_dropped != item.is_dropped:
            run.report.leave_out("changes", f"message {item.key.partition('/')[0]}", CHANGED)
    batch.store(run)


def _take_turns(run: ImportRun, items: Sequence[RowItem]) -> dict[tuple[str, str], str]:
    """Return the ids of the turns of rows; open, and close, those that are missing."""
    firsts: dict[tuple[str, str], RowItem] = {}
    for item in items:
        if item.group:
            firsts.setdefault((item.session, item.group), item)
    ids = {place: make_id(run.rooms[place[0]].id, f"turn {place[1]}") for place in firsts}
    query = select(turns_table.c.id).where(turns_table.c.id.in_(ids.values()))
    known = set(run.tx.conn.execute(query).scalars())
    heads: dict[str, str | None] = {}
    values = []
    for place, item in firsts.items():
        room_id = run.rooms[item.session].id
        if ids[place] not in known:
            if room_id not in heads:
                heads[room_id] = turns.read_head(run.tx.conn, room_id)
            values.append(
                {
                    "id": ids[place],
                    "room_id": room_id,
                    "agent_id": run.model.id,
                    "opened_by": run.person.id,
                    "parent_turn_id": heads[room_id],
                    "status": "dropped" if item.is_dropped else "completed",
                    "created_at": item.at,
                    "closed_at": item.at,
                }
            )
            heads[room_id] = ids[place]
        if item.begins_turn:
            run.report.count("turns", "known" if ids[place] in known else "new")
    if values:
        run.tx.conn.execute(insert(turns_table), values)
    for room_id, head in heads.items():
        turns.set_head(run.tx, room_id, head)
    return ids


class _Batch:
    """The rows of a step and what belongs to them, until they are stored together."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tags: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.ends: dict[str, int] = {}
        self.requests: dict[str, str] = {}

    def store(self, run: ImportRun) -> None:
        """Store it, and publish the rows."""
        if not self.rows:
            return
        conn = run.tx.conn
        values = [
            {name: getattr(row, name) for name in _COLUMNS}
            | {"n": row.n or None, "meta": dump_metadata(row.meta)}
            for row in self.rows
        ]
        conn.execute(insert(rows_table), values)
        for row in self.rows:
            run.tx.publish_on_commit(RowAppended(row))
        if self.tags:
            conn.execute(insert(row_tags), self.tags)
        if self.calls:
            conn.execute(insert(tool_calls), self.calls)
        if self.results:
            is_call = tool_calls.c.id == bindparam("call_id")
            changed: dict[str, Any] = {"result": bindparam("text"), "finished_at": bindparam("at")}
            conn.execute(update(tool_calls).where(is_call).values(changed), self.results)
        by_id = update(turns_table).where(turns_table.c.id == bindparam("turn"))
        if self.ends:
            ends = [{"turn": turn, "at": at} for turn, at in self.ends.items()]
            conn.execute(by_id.values(closed_at=bindparam("at")), ends)
        if self.requests:
            is_free = turns_table.c.request_row_id.is_(None)
            requests = [{"turn": turn, "row": row} for turn, row in self.requests.items()]
            conn.execute(by_id.where(is_free).values(request_row_id=bindparam("row")), requests)


_COLUMNS: Final = (
    "id", "room_id", "seq", "kind", "content", "author_id", "created_at", "parent_row_id",
    "turn_id", "status",
)  # fmt: skip


def _add_row(
    run: ImportRun, batch: _Batch, item: RowItem, row_id: str, turn_id: str | None
) -> None:
    """Add a row to those that are stored, with its call and the end of its turn."""
    room_id = run.rooms[item.session].id
    call_id = make_id(room_id, item.call_key) if item.call_key else None
    meta: dict[str, Any] = {IMPORT_KEY: True}
    if item.tool:
        meta |= {"tool": item.tool} | ({"call_id": call_id} if call_id else {})
        batch.tags.append({"row_id": row_id, "tag": f"tool:{item.tool}"})
    row = Row(
        id=row_id,
        room_id=room_id,
        seq=run.tx.next_seq(room_id),
        n=run.tx.next_n() or 0,
        kind=item.kind,
        content=replace_nul(item.content),
        author_id={"person": run.person.id, "model": run.model.id, "": None}[item.author],
        created_at=item.at,
        parent_row_id=call_id,
        turn_id=turn_id,
        status="dropped" if item.is_dropped else "completed",
        meta=meta,
    )
    batch.rows.append(row)
    time = format_iso(item.at)
    if item.kind == "tool.call":  # it has ended, whether its result is known or not
        batch.calls.append(
            {
                "id": row_id,
                "room_id": room_id,
                "tool_id": item.tool,
                "args": row.content,
                "status": "success",
                "started_at": time,
                "finished_at": time,
            }
        )
    elif item.kind == "tool.result" and call_id:
        result = json.dumps(row.content, ensure_ascii=False)
        batch.results.append({"call_id": call_id, "text": result, "at": time})
    if turn_id is not None:
        batch.ends[turn_id] = item.at
        if item.author == "person":
            batch.requests.setdefault(turn_id, row_id)


def take_usage(run: ImportRun, item: UsageItem) -> None:
    """Record the tokens of one answer, unless it is known."""
    room = run.rooms[item.session]
    if item.id <= room.metadata[IMPORT_KEY].get("usage", -1):
        run.report.count("usage rows", "known")
        return
    # Below all others: budgets of a day read the newest rows, which are those of this server.
    lowest = run.tx.conn.execute(select(func.min(usage.c.id))).scalar() or 0
    run.tx.conn.execute(
        insert(usage).values(
            id=min(lowest, 0) - 1,
            room_id=room.id,
            agent_id=run.model.id,
            model=item.model,
            prompt_tokens=item.prompt_tokens,
            completion_tokens=item.completion_tokens,
            estimated=0,
            created_at=datetime.fromtimestamp(item.at / 1000, UTC).isoformat(
                timespec="milliseconds"
            ),
        )
    )
    set_import_fields(run, room, usage=item.id)
    run.report.count("usage rows", "new")
