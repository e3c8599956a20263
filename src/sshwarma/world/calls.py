"""The record of tool calls: a row in the room, and a row of `tool_calls`.

The first is for people, the second for statistics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Connection, bindparam, case, insert, select, update

from sshwarma.common.limits import MAX_CALL_ATTACHMENTS
from sshwarma.common.times import format_iso
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world import attachments, rows
from sshwarma.world.attachments import Attachment
from sshwarma.world.end_reason import SERVER_STOPPED
from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import tool_calls, turns
from sshwarma.world.store import Change

CallResultKind = Literal["result", "error", "timeout"]

CHANGES_KEY: Final = "changes"
"""Key of the metadata of the row of a result: what the call changed of the files, in words."""

RECORDED_STEP: Final = "call recorded"
"""The last step of a call whose steps are recorded."""


# Built once: to build them takes longer than to run them.
_END_TIMES: Final = {
    # One that still waits has run no time.
    "started_at": case(
        (tool_calls.c.status == "pending", bindparam("now")), else_=tool_calls.c.started_at
    ),
    "finished_at": bindparam("now"),
}
_INSERT: Final = insert(tool_calls)
_END: Final = (
    update(tool_calls)
    .where(tool_calls.c.id == bindparam("call_id"))
    .values({name: bindparam(f"new_{name}") for name in ("status", "result", "error")})
    .values(render_plan=bindparam("new_plan"), **_END_TIMES)
)


def record_call_start(  # noqa: PLR0913 - one keyword for each fact
    tx: Change,
    room_id: str,
    agent_id: str,
    tool: str,
    arguments: dict[str, Any],
    *,
    turn_id: str | None,
    parent_row_id: str | None,
    is_nested: bool = False,
    step: int | None = None,
) -> Row:
    """Record the start of a call.

    `tool`: its qualified name. The row's id is the call's.
    `is_nested`: whether another recorded call made it; logs show it with all details only.
    `step`: number of the step of the turn that made it, from 1: its calls are one message.
    """
    text = json.dumps(arguments, ensure_ascii=False)
    row = rows.append_row(
        tx,
        room_id,
        "tool.call",
        text,
        author_id=agent_id,
        turn_id=turn_id,
        parent_row_id=parent_row_id,
        meta={"tool": tool}
        | ({"nested": True} if is_nested else {})
        | ({"step": step} if step is not None else {}),
        tags=(f"tool:{tool}",),
    )
    tx.conn.execute(
        _INSERT,
        {
            "id": row.id,
            "room_id": room_id,
            "row_id": parent_row_id,
            "tool_id": tool,
            "args": text,
            "status": "running",
            "started_at": format_iso(tx.now),
        },
    )
    return row


def set_call_status(tx: Change, call_id: str | None, status: Literal["pending", "running"]) -> None:
    """Record that a call waits, for an approval or for its turn, or that it runs."""
    if call_id is not None:
        values: dict[str, str] = {"status": status}
        if status == "running":  # the wait is not part of the time that it runs
            values["started_at"] = format_iso(tx.now)
        tx.conn.execute(update(tool_calls).where(tool_calls.c.id == call_id).values(values))


def record_run_start(tx: Change, call_id: str, before_id: str) -> None:
    """Record that a call begins to work on files, and from which version."""
    set_call_status(tx, call_id, "running")
    query = update(tool_calls).where(tool_calls.c.id == call_id)
    tx.conn.execute(query.values(pre_manifest_id=before_id))


def end_open_calls(tx: Change) -> None:
    """Record the end of the calls that a crash has interrupted, in their rooms too.

    The calls that a call made end before it. How long each ran is not known.
    """
    is_open = tool_calls.c.finished_at.is_(None)
    query = (
        select(rows_table, tool_calls.c.tool_id)
        .join(tool_calls, tool_calls.c.id == rows_table.c.id)
        .where(is_open)
        .order_by(rows_table.c.n.desc())
    )
    for found in tx.conn.execute(query).mappings().all():
        call = row_from_mapping(found)
        _append_end_row(tx, call, found["tool_id"], "error", SERVER_STOPPED.text, {})
    tx.conn.execute(
        update(tool_calls)
        .where(is_open)
        .values(status="error", error=SERVER_STOPPED.text, **_END_TIMES),
        {"now": format_iso(tx.now)},
    )


def record_manifests(
    tx: Change, call_id: str, turn_id: str | None, before_id: str | None, after_id: str
) -> None:
    """Record the versions of the files before and after a call that changed them."""
    if turn_id is not None:
        tx.conn.execute(
            update(turns).where(turns.c.id == turn_id).values(post_manifest_id=after_id)
        )
    query = update(tool_calls).where(tool_calls.c.id == call_id)
    tx.conn.execute(query.values(post_manifest_id=after_id))
    is_first = tool_calls.c.pre_manifest_id.is_(None)
    tx.conn.execute(query.where(is_first).values(pre_manifest_id=before_id))


def read_shown_result(conn: Connection, row: Row) -> tuple[dict[str, Any] | None, Any]:
    """Return the render plan of the result in a row, and the result."""
    found = conn.execute(
        select(tool_calls.c.render_plan, tool_calls.c.result).where(
            tool_calls.c.id == row.meta.get("call_id")
        )
    ).first()
    if found is None or found.render_plan is None:
        return None, None
    return json.loads(found.render_plan), json.loads(found.result or "null")


def record_call_end(  # noqa: PLR0913 - one parameter for each part of a result
    tx: Change,
    call: Row,
    ending: CallResultKind,
    text: str,
    structured: Any,
    seconds: float,
    kept: Sequence[Attachment] = (),
    *,
    nested_calls: int = 0,
    origin: object | None = None,
    render_plan: Mapping[str, Any] | None = None,
    steps: Sequence[tuple[str, int]] = (),
    waited: float = 0.0,
    changes: str = "",
    ended_at: int | None = None,
) -> Row:
    """Record the result of a call. Statistics count a timeout as an error.

    `nested_calls`: the calls that it made, at all depths. `origin` is that of `RowAppended`.
    `render_plan` and `steps` are those of `ToolResult`. `waited`: the seconds before those that it
    ran, in which it waited. `changes`: what it changed of the files, in words. `ended_at`: in Unix
    milliseconds, if that was before now.
    """
    succeeded = ending == "result"
    shown = text if structured is None else structured
    tx.conn.execute(
        _END,
        {
            "call_id": call.id,
            "new_status": "success" if succeeded else "error",
            "new_result": json.dumps(shown, ensure_ascii=False),
            "new_error": None if succeeded else replace_nul(text),
            "new_plan": None if render_plan is None else json.dumps(render_plan),
            "now": format_iso(min(ended_at or tx.now, tx.now)),
        },
    )
    attachments.store_attachments(tx, call.room_id, call.id, kept)
    entries = [
        [attachment.media_type, len(attachment.data)] for attachment in kept[:MAX_CALL_ATTACHMENTS]
    ]
    return _append_end_row(
        tx,
        call,
        call.meta["tool"],
        ending,
        text,
        {"seconds": round(seconds, 3)}
        | ({"waited": round(waited, 3)} if waited else {})
        | ({CHANGES_KEY: changes} if changes else {})
        | ({"attachments": entries} if entries else {})
        | ({"calls": nested_calls} if nested_calls else {})
        | ({"steps": [*map(list, steps), [RECORDED_STEP, tx.now]]} if steps else {})
        | ({"renderer": render_plan["renderer"]} if render_plan else {}),
        origin,
    )


def _append_end_row(
    tx: Change,
    call: Row,
    tool: str,
    ending: CallResultKind,
    text: str,
    meta: Mapping[str, Any],
    origin: object | None = None,
) -> Row:
    """Append the row that ends a call to the log of its room."""
    return rows.append_row(
        tx,
        call.room_id,
        f"tool.{ending}",
        text,
        author_id=call.author_id,
        turn_id=call.turn_id,
        parent_row_id=call.id,
        meta={"tool": tool, "call_id": call.id}
        | dict(meta)
        | ({"nested": True} if call.meta.get("nested") else {}),
        tags=(f"tool:{tool}",),
        origin=origin,
    )


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call as it is recorded.

    Attributes:
        start: the row of its arguments; None if the log has it no longer.
        end: the row of its result; None while it waits or runs.
        before_id, after_id: the versions of the files before and after it; None if it had none.
    """

    start: Row | None
    end: Row | None
    status: str
    started_at: str | None
    finished_at: str | None
    before_id: str | None
    after_id: str | None


def read_recorded_call(conn: Connection, row: Row) -> CallRecord | None:
    """Return the call of a row, which has its arguments or its result; else None."""
    call_id = row.id if row.kind == "tool.call" else row.meta.get("call_id")
    found = conn.execute(select(tool_calls).where(tool_calls.c.id == call_id)).mappings().first()
    if call_id is None or found is None:
        return None
    query = rows_table.select().where(rows_table.c.room_id == row.room_id)
    of_call = (rows_table.c.id == call_id) | (
        (rows_table.c.parent_row_id == call_id) & rows_table.c.kind.in_(rows.CALL_END_KINDS)
    )
    both = [row_from_mapping(one) for one in conn.execute(query.where(of_call)).mappings()]
    return CallRecord(
        start=next((one for one in both if one.id == call_id), None),
        end=next((one for one in both if one.meta.get("call_id") == call_id), None),
        status=found["status"],
        started_at=found["started_at"],
        finished_at=found["finished_at"],
        before_id=found["pre_manifest_id"],
        after_id=found["post_manifest_id"],
    )
