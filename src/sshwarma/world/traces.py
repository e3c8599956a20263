"""When answers, requests to models and calls ran in a room."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, and_, or_, select

from sshwarma.world.schema import rows, tool_calls, turns, usage
from sshwarma.world.turns import Turn


@dataclass(frozen=True, slots=True)
class CallTimes:
    """When a call was made, began to run, and ended, in Unix milliseconds.

    Attributes:
        seq: number of its row.
        parent: number of the row of the call that made it; 0 for none.
        tool: qualified name.
        turn_id: the turn that it belongs to; None for a call of a person.
        status: pending, running, success or error.
        ran_at: equal to `made_at` unless it waited; None while it waits.
        ended_at: None before.
    """

    seq: int
    parent: int
    tool: str
    agent_id: str | None
    turn_id: str | None
    status: str
    made_at: int
    ran_at: int | None
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class RequestUsage:
    """What a request to a model used; `ended_at` is in Unix milliseconds."""

    turn_id: str
    model: str
    ended_at: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    is_estimated: bool


def read_call_times(
    conn: Connection, room_id: str, found: Sequence[Turn], limit: int
) -> list[CallTimes]:
    """Return the newest calls of turns, and of people since, in order.

    People's are those since the first turn; without turns, their newest. At most `limit`.
    """
    turn_ids = [turn.id for turn in found]
    since = min((turn.created_at for turn in found), default=0)
    of_people = and_(rows.c.turn_id.is_(None), rows.c.created_at >= since)
    query = (
        select(
            rows.c.id, rows.c.seq, rows.c.parent_row_id, rows.c.author_id, rows.c.turn_id,
            rows.c.created_at, rows.c.meta, tool_calls.c.tool_id, tool_calls.c.status,
            tool_calls.c.started_at, tool_calls.c.finished_at,
        )
        .join(tool_calls, tool_calls.c.id == rows.c.id)
        .where(
            rows.c.room_id == room_id,
            rows.c.kind == "tool.call",
            or_(rows.c.turn_id.in_(turn_ids), of_people),
        )
        .order_by(rows.c.seq.desc())
        .limit(limit)
    )  # fmt: skip
    calls = conn.execute(query).all()[::-1]
    seqs = {call.id: call.seq for call in calls}
    return [
        CallTimes(
            seq=call.seq,
            parent=seqs.get(call.parent_row_id, 0) if _is_nested(call.meta) else 0,
            tool=call.tool_id,
            agent_id=call.author_id,
            turn_id=call.turn_id,
            status=call.status,
            made_at=call.created_at,
            ran_at=None if call.status == "pending" else _read_time(call.started_at),
            ended_at=_read_time(call.finished_at) if call.finished_at else None,
        )
        for call in calls
    ]


def read_request_usage(conn: Connection, found: Sequence[Turn]) -> list[RequestUsage]:
    """Return what the requests of turns used, in order."""
    query = (
        select(usage)
        .where(usage.c.turn_id.in_([turn.id for turn in found]))
        .order_by(usage.c.created_at, usage.c.id)
    )
    return [
        RequestUsage(
            row.turn_id, row.model, _read_time(row.created_at), row.prompt_tokens,
            row.completion_tokens, row.cost, bool(row.estimated),
        )
        for row in conn.execute(query)
    ]  # fmt: skip


def read_turn_ends(conn: Connection, found: Sequence[Turn]) -> dict[str, int]:
    """Return when turns ended, by id, in Unix milliseconds; open ones are left out."""
    query = select(turns.c.id, turns.c.closed_at).where(
        turns.c.id.in_([turn.id for turn in found]), turns.c.closed_at.is_not(None)
    )
    return {row.id: row.closed_at for row in conn.execute(query)}


def _is_nested(meta: str | None) -> bool:
    return bool(meta) and bool(json.loads(meta or "{}").get("nested"))


def _read_time(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
