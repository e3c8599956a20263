"""The waterfall of a room's calls: lines of time, one group for each turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

from sshwarma.common.limits import MAX_OPEN_CALLS
from sshwarma.verbs.trace import Trace, TracedCall, TracedRequest, TracedTurn
from sshwarma.verbs.views import format_clock, format_count
from sshwarma.web.console.frames import room_path
from sshwarma.web.console.svg import Segment, draw_time_line

PAUSE_MILLISECONDS: Final = 10_000
"""A longer time between two calls of people: each is on a line of time of its own."""

STATUS_WORDS: Final = {"success": "", "error": "failed", "pending": "waits", "running": "runs"}


@dataclass(slots=True)
class WaterfallLine:
    """A request or a call.

    Attributes:
        path: of its page; "" for a request.
        line: its line of time.
        words: the same in words, for the table too.
        nested: the calls that it made, and `nested_count` those at all depths.
        facts: of the table: kind, began, waited, ran, status, tokens, cost.
    """

    id: str
    name: str
    path: str
    line: Markup
    words: str
    facts: tuple[str, ...]
    nested: list[WaterfallLine] = field(default_factory=list)

    @property
    def nested_count(self) -> int:
        """The number of calls below it."""
        return sum(1 + one.nested_count for one in self.nested)


@dataclass(frozen=True, slots=True)
class WaterfallGroup:
    """The lines of a turn, or of calls that people made at about the same time.

    Attributes:
        summary: how long models and tools took, with tokens and cost.
        lines: those that are shown unfolded; `rest` are the others.
        is_open: whether it is unfolded at first.
    """

    id: str
    title: str
    summary: str
    seconds: str
    lines: Sequence[WaterfallLine]
    rest: Sequence[WaterfallLine]
    calls: int
    is_open: bool

    def list_all(self) -> list[tuple[int, WaterfallLine]]:
        """Return every line with its depth, in order, for the table."""
        return list(_walk([*self.lines, *self.rest], 0))


def _walk(lines: Iterable[WaterfallLine], depth: int) -> Iterable[tuple[int, WaterfallLine]]:
    for one in lines:
        yield depth, one
        yield from _walk(one.nested, depth + 1)


def make_waterfall(trace: Trace, now: int) -> list[WaterfallGroup]:
    """Return the groups of a trace, the newest first; `now` is in Unix milliseconds."""
    found = [(turn.at, _describe_turn(turn, now)) for turn in trace.turns]
    found += [(calls[0].at, _describe_calls(calls, now)) for calls in _split_calls(trace.calls)]
    groups: list[WaterfallGroup] = []
    shown = 0
    for _, (group_id, title, summary, calls, requests, start, end) in sorted(
        found, key=lambda one: one[0], reverse=True
    ):
        lines = _make_lines(trace.room, calls, requests, start, end, now)
        shown += len(calls)
        groups.append(
            WaterfallGroup(
                group_id, title, summary, format_seconds(end - start), lines[:MAX_OPEN_CALLS],
                lines[MAX_OPEN_CALLS:], len(calls), not groups or shown <= MAX_OPEN_CALLS,
            )
        )  # fmt: skip
    return groups


_Described = tuple[
    str, str, str, Sequence[TracedCall], Sequence[TracedRequest], int, int
]  # id, title, summary, calls, requests, start, end


def _describe_turn(turn: TracedTurn, now: int) -> _Described:
    end = max([turn.ended_at or now, *(call.ended_at or now for call in turn.calls), turn.at + 1])
    model = sum(one.ended_at - one.at for one in turn.requests)
    summary = (
        f"{format_seconds(end - turn.at)}: model {format_seconds(model)}, "
        f"{_sum_calls(turn.calls, now)}. {format_tokens(turn.prompt_tokens)} in, "
        f"{format_tokens(turn.completion_tokens)} out, {format_cost(turn.cost)}."
    )
    status = "" if turn.status == "completed" else f", {turn.status}"
    title = f"{turn.by} → {turn.agent}, {format_clock(turn.at)}{status}"
    return f"turn-{turn.id}", title, summary, turn.calls, turn.requests, turn.at, end


def _describe_calls(calls: Sequence[TracedCall], now: int) -> _Described:
    end = max([*(call.ended_at or now for call in calls), calls[0].at + 1])
    names = ", ".join(dict.fromkeys(call.by for call in calls))
    summary = f"{format_seconds(end - calls[0].at)}: {_sum_calls(calls, now)}."
    title = f"Calls of {names}, {format_clock(calls[0].at)}"
    return f"calls-{calls[0].seq}", title, summary, calls, (), calls[0].at, end


def _split_calls(calls: Sequence[TracedCall]) -> list[list[TracedCall]]:
    """Return calls of people in groups; a pause between calls begins another."""
    groups: list[list[TracedCall]] = []
    end = 0
    for call in calls:
        if not groups or (not call.parent and call.at > end + PAUSE_MILLISECONDS):
            groups.append([])
        groups[-1].append(call)
        end = max(end, call.ended_at or call.at)
    return groups


def _sum_calls(calls: Sequence[TracedCall], now: int) -> str:
    """Return for how long any call ran, and any waited; times at once count once."""
    ran = _count_covered((_find_run(call, now) for call in calls), 1)
    waited = _count_covered(((call.at, _find_run(call, now)[0]) for call in calls), 1)
    failed = sum(call.status == "error" for call in calls)
    parts = [f"{format_count(len(calls), 'call')} {format_seconds(ran)}"]
    parts += [f"waited {format_seconds(waited)}"] if waited else []
    parts += [f"{failed} failed"] if failed else []
    return ", ".join(parts)


def _count_covered(spans: Iterable[tuple[int, int]], least: int) -> int:
    """Return the milliseconds that spans cover, without those under `least`."""
    total, end = 0, 0
    for start, stop in sorted(one for one in spans if one[1] - one[0] >= least):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def _find_run(call: TracedCall, now: int) -> tuple[int, int]:
    """Return when a call began to run and ended; `now` for what has not come."""
    ended = call.ended_at if call.ended_at is not None else now
    began = call.ran_at if call.ran_at is not None else ended
    return min(began, ended), ended


def _make_lines(
    room: str,
    calls: Sequence[TracedCall],
    requests: Sequence[TracedRequest],
    start: int,
    end: int,
    now: int,
) -> list[WaterfallLine]:
    """Return the lines of requests and calls by time, nested ones in others."""
    top: list[tuple[int, WaterfallLine]] = [
        (one.at, _make_request_line(one, number, start, end)) for number, one in enumerate(requests)
    ]
    by_seq: dict[int, WaterfallLine] = {}
    for call in calls:
        made = by_seq[call.seq] = _make_call_line(room, call, start, end, now)
        if call.parent in by_seq:
            by_seq[call.parent].nested.append(made)
        else:
            top.append((call.at, made))
    return [one for _, one in sorted(top, key=lambda one: one[0])]


def _make_request_line(request: TracedRequest, number: int, start: int, end: int) -> WaterfallLine:
    took = format_seconds(request.ended_at - request.at)
    total = request.prompt_tokens + request.completion_tokens
    tokens = f"{format_tokens(total)}{' (estimated)' if request.estimated else ''}"
    return WaterfallLine(
        f"request-{start}-{number}",
        request.model,
        "",
        draw_time_line([Segment("model-time", request.at, request.ended_at)], start, end),
        f"{took}, {tokens}",
        ("model", f"+{format_seconds(request.at - start)}", "", took, "", tokens,
         format_cost(request.cost)),
    )  # fmt: skip


def _make_call_line(room: str, call: TracedCall, start: int, end: int, now: int) -> WaterfallLine:
    began, ended = _find_run(call, now)
    status = STATUS_WORDS.get(call.status, call.status)
    waited = began - call.at
    segments = [Segment("wait-time", call.at, began)] if waited > 0 else []
    if call.ran_at is not None:
        kind = "failed-time" if call.status == "error" else "tool-time"
        segments.append(Segment(kind, began, ended))
    took = format_seconds(ended - began) if call.ran_at is not None else ""
    wait = format_seconds(waited) if waited > 0 else ""
    words = ", ".join(filter(None, (took, wait and f"waited {wait}", status)))
    return WaterfallLine(
        f"call-{call.seq}",
        call.tool,
        room_path(room, "call", str(call.seq)),
        draw_time_line(segments, start, end),
        words,
        ("tool", f"+{format_seconds(call.at - start)}", wait, took, status or "done", "", ""),
    )


def format_seconds(milliseconds: float) -> str:
    """Return a time in words, to three places below ten seconds."""
    seconds = milliseconds / 1000
    return f"{seconds:.3f} s" if seconds < 10 else f"{seconds:,.1f} s"


def format_tokens(count: int) -> str:
    """Return a number of tokens in words."""
    return f"{count:,} token{'' if count == 1 else 's'}"


def format_cost(cost: float | None) -> str:
    """Return a cost in words."""
    return "cost unknown" if cost is None else f"${cost:.4f}"
