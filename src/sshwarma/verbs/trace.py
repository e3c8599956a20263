"""The verb trace: when answers, requests to models and tool calls ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field
from sqlalchemy import Connection

from sshwarma.common.limits import DEFAULT_TRACED_TURNS, MAX_TRACED_CALLS, MAX_TRACED_TURNS
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.verbs.arguments import Arg
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, format_clock, format_count, view
from sshwarma.world import traces, turns
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.traces import CallTimes, RequestUsage
from sshwarma.world.turns import Turn

TracedTurns: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_TRACED_TURNS)]


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A tool call. Times are Unix milliseconds.

    Attributes:
        seq: number of its row.
        parent: number of the row of the call that made it; 0 for none.
        status: pending, running, success or error.
        at: when it was made; what is between that and `ran_at` it waited.
        ran_at: when it began to run; None while it waits.
        ended_at: None before its end.
    """

    seq: int
    parent: int
    tool: str
    by: str
    status: str
    at: int
    ran_at: int | None
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """A request to a model. Times are Unix milliseconds.

    Attributes:
        at: when the calls before it had ended.
        cost: US dollars; None if no price is known.
        estimated: whether we counted the tokens, not the provider.
    """

    model: str
    at: int
    ended_at: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    estimated: bool


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """A turn with its requests and calls. Times are Unix milliseconds.

    Attributes:
        short: the end of its id, enough to name it.
        ended_at: None while it is open.
        cost: US dollars of the requests with a known price; None if no price is known.
    """

    id: str
    short: str
    by: str
    agent: str
    status: str
    at: int
    ended_at: int | None
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    requests: tuple[TracedRequest, ...]
    calls: tuple[TracedCall, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """The newest turns of a room, oldest first, and the calls that people made since.

    `is_cut`: whether older calls of them are left out, because there are too many.
    """

    room: str
    turns: tuple[TracedTurn, ...]
    calls: tuple[TracedCall, ...]
    is_cut: bool


@view(Trace)
def draw_trace(trace: Trace) -> Block:
    """Draw each turn with its requests and calls, by time."""
    if not trace.turns and not trace.calls:
        return block(line("No model or tool was called in ", ("room", trace.room), " yet."))
    lines: list[Line] = []
    for turn in trace.turns:
        cost = "" if turn.cost is None else f", ${turn.cost:.4f}"
        tokens = format_count(turn.prompt_tokens + turn.completion_tokens, "token")
        lines.append(
            line(
                ("mark", turn.short), ("time", f" {format_clock(turn.at)} "),
                f"{turn.by} → {turn.agent}", ("dim", f"  {turn.status}, {tokens}{cost}"), hang=2,
            )
        )  # fmt: skip
        lines += _draw_spans(turn.at, turn.calls, turn.requests)
    if trace.calls:
        lines.append(line(("heading", "Calls of people:")))
        lines += _draw_spans(trace.calls[0].at, trace.calls, ())
    if trace.is_cut:
        lines.append(line(("dim", f"Only the newest {MAX_TRACED_CALLS} calls are shown.")))
    return block(*lines)


def _draw_spans(
    start: int, calls: Sequence[TracedCall], requests: Sequence[TracedRequest]
) -> list[Line]:
    depths: dict[int, int] = {0: -1}
    drawn: list[tuple[int, tuple[str | Span, ...]]] = [
        (request.at, _draw_request(start, request)) for request in requests
    ]
    for call in calls:
        depths[call.seq] = depths.get(call.parent, -1) + 1
        drawn.append((call.at, _draw_call(start, call, depths[call.seq])))
    drawn.sort(key=lambda one: one[0])
    return draw_columns((cells for _, cells in drawn), indent=2)


def _draw_request(start: int, request: TracedRequest) -> tuple[str | Span, ...]:
    tokens = f"{request.prompt_tokens} in, {request.completion_tokens} out"
    took = _format_seconds(request.ended_at - request.at)
    offset = _format_seconds(request.at - start)
    return ("time", f"+{offset}"), took, ("model", request.model), ("dim", tokens), ""


def _draw_call(start: int, call: TracedCall, depth: int) -> tuple[str | Span, ...]:
    ran_at = call.ran_at if call.ran_at is not None else call.ended_at
    waited = 0 if ran_at is None else max(0, ran_at - call.at)
    took = (
        "" if call.ended_at is None or ran_at is None else _format_seconds(call.ended_at - ran_at)
    )
    wait = f"waited {_format_seconds(waited)}" if waited else ""
    status = "" if call.status == "success" else call.status
    offset = f"+{_format_seconds(call.at - start)}"
    return (
        ("time", offset),
        took,
        ("tool", "  " * depth + call.tool),
        ("dim", wait),
        (
            "warn",
            status,
        ),
    )


def _format_seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f} s"


@verb(
    "trace",
    section="Models",
    needs=Right.ENTER,
    tool=False,
    examples=("/trace", "/trace 20"),
)
async def trace(caller: Caller, n: TracedTurns = DEFAULT_TRACED_TURNS) -> Trace:
    """Show when the requests and calls of the newest turns ran.

    With the time that each took and waited, and the tokens of each request. Calls that people made
    since the first of these turns follow. At most {MAX_TRACED_CALLS} calls.

    Args:
        n: number of turns (default {DEFAULT_TRACED_TURNS}, at most {MAX_TRACED_TURNS}).
    """
    room = await caller.room()

    def read(
        conn: Connection,
    ) -> tuple[list[Turn], list[CallTimes], list[RequestUsage], dict[str, int]]:
        found = turns.read_newest_turns(conn, room.id, n)
        return (
            found,
            traces.read_call_times(conn, room.id, found, MAX_TRACED_CALLS + 1),
            traces.read_request_usage(conn, found),
            traces.read_turn_ends(conn, found),
        )

    found, calls, usages, ends = await caller.world.store.read(read)
    is_cut = len(calls) > MAX_TRACED_CALLS
    shown = [_make_call(caller, call) for call in calls[-MAX_TRACED_CALLS:]]
    by_turn: dict[str | None, list[TracedCall]] = {}
    for call, made in zip(calls[-MAX_TRACED_CALLS:], shown, strict=True):
        by_turn.setdefault(call.turn_id, []).append(made)
    return Trace(
        room.name,
        tuple(
            _make_turn(
                caller, turn, ends.get(turn.id), tuple(by_turn.get(turn.id, ())),
                [one for one in usages if one.turn_id == turn.id],
            )
            for turn in found
        ),
        tuple(by_turn.get(None, ())),
        is_cut,
    )  # fmt: skip


def _make_call(caller: Caller, call: CallTimes) -> TracedCall:
    by = caller.world.agents.name_of(call.agent_id)
    return TracedCall(
        call.seq, call.parent, call.tool, by, call.status, call.made_at, call.ran_at, call.ended_at
    )


def _make_turn(
    caller: Caller,
    turn: Turn,
    ended_at: int | None,
    calls: tuple[TracedCall, ...],
    usages: Sequence[RequestUsage],
) -> TracedTurn:
    names = caller.world.agents
    costs = [one.cost for one in usages if one.cost is not None]
    return TracedTurn(
        id=turn.id,
        short=turn.short_id,
        by=names.name_of(turn.opened_by),
        agent=names.name_of(turn.agent_id),
        status=turn.status,
        at=turn.created_at,
        ended_at=ended_at,
        prompt_tokens=sum(one.prompt_tokens for one in usages),
        completion_tokens=sum(one.completion_tokens for one in usages),
        cost=sum(costs) if costs else None,
        requests=tuple(_list_requests(turn, calls, usages)),
        calls=calls,
    )


def _list_requests(
    turn: Turn, calls: Sequence[TracedCall], usages: Sequence[RequestUsage]
) -> Iterator[TracedRequest]:
    """Yield the requests of a turn.

    Each begins when the calls of the one before it have ended.
    """
    began = turn.created_at
    for one in usages:
        ends = [call.ended_at or call.at for call in calls if call.at < one.ended_at]
        began = min(max(began, *ends) if ends else began, one.ended_at)
        yield TracedRequest(
            one.model, began, one.ended_at, one.prompt_tokens, one.completion_tokens, one.cost,
            one.is_estimated,
        )  # fmt: skip
        began = one.ended_at
