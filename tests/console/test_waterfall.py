"""The lines of the waterfall: where bars begin and end, and what is folded."""

from __future__ import annotations

import re
import time

from sshwarma.common.limits import MAX_OPEN_CALLS
from sshwarma.verbs.trace import Trace, TracedCall, TracedRequest, TracedTurn
from sshwarma.web.console.waterfall import WaterfallLine, make_waterfall


def make_call(
    seq: int, at: int, ran_at: int | None, ended_at: int | None, **more: int
) -> TracedCall:
    status = "success" if ended_at else "running"
    return TracedCall(
        seq, more.get("parent", 0), "kit:work", "qwen", status if ran_at else "pending", at, ran_at,
        ended_at,
    )  # fmt: skip


def make_turn(*calls: TracedCall, at: int = 0, ended_at: int | None = 1000) -> TracedTurn:
    request = TracedRequest("m", at, at + 100, 90, 10, 0.5, False)
    return TracedTurn(
        f"id{at}", "id", "ann", "qwen", "completed" if ended_at else "open", at, ended_at, 90, 10,
        0.5, (request,), calls,
    )  # fmt: skip


def read_bars(line: WaterfallLine) -> dict[str, tuple[float, float]]:
    """Begins and ends of the bars of a line, in percent, by class."""
    found = re.findall(
        r'x="([\d.]+)%" y="3" width="([\d.]+)%" height="14" class="([\w-]+)"', line.line
    )
    return {kind: (float(x), float(x) + float(width)) for x, width, kind in found}


def test_parallel_calls_are_parallel_and_waits_are_apart() -> None:
    turn = make_turn(make_call(5, 100, 100, 600), make_call(6, 150, 400, 900))
    (group,) = make_waterfall(Trace("den", (turn,), (), False), 2000)
    request, first, second = group.lines
    assert read_bars(request) == {"model-time": (0, 10)}
    assert read_bars(first) == {"tool-time": (10, 60)}
    assert read_bars(second) == {"wait-time": (15, 40), "tool-time": (40, 90)}
    assert first.path == "/room/den/call/5"
    assert second.facts[1:5] == ("+0.150 s", "0.250 s", "0.500 s", "done")
    assert group.summary.startswith("1.000 s: model 0.100 s, 2 calls 0.800 s, waited 0.250 s.")
    assert "$0.5000" in group.summary and "90 tokens in" in group.summary


def test_unfinished_calls_last_until_now() -> None:
    turn = make_turn(make_call(5, 100, 200, None), make_call(6, 300, None, None), ended_at=None)
    (group,) = make_waterfall(Trace("den", (turn,), (), False), 500)
    _, running, waiting = group.lines
    assert read_bars(running) == {"wait-time": (20, 40), "tool-time": (40, 100)}
    assert read_bars(waiting) == {"wait-time": (60, 100)}
    assert "runs" in running.words and "waits" in waiting.words


def test_nested_calls_are_within_their_caller_with_a_count() -> None:
    calls = (
        make_call(5, 0, 0, 90),
        make_call(6, 1, 1, 80, parent=5),
        make_call(7, 2, 2, 70, parent=6),
    )
    (group,) = make_waterfall(Trace("den", (), calls, False), 100)
    (line,) = group.lines
    assert (line.nested_count, line.nested[0].nested_count) == (2, 1)
    assert [depth for depth, _ in group.list_all()] == [0, 1, 2]


def test_calls_of_people_far_apart_are_on_lines_of_their_own() -> None:
    calls = (
        make_call(1, 0, 0, 10),
        make_call(2, 500, 500, 600),
        make_call(3, 60_000, 60_000, 60_001),
    )
    groups = make_waterfall(Trace("den", (), calls, False), 70_000)
    assert [group.calls for group in groups] == [1, 2]


def test_many_calls_are_folded_and_drawn_at_once() -> None:
    turns = [
        make_turn(*(make_call(at + n, at + n, at + n, at + n + 5) for n in range(40)), at=at)
        for at in range(0, 500_000, 100_000)
    ]
    began = time.perf_counter()
    groups = make_waterfall(Trace("den", tuple(turns), (), False), 600_000)
    assert time.perf_counter() - began < 0.5
    assert [group.calls for group in groups] == [40] * 5
    assert [group.is_open for group in groups] == [True, False, False, False, False]
    (group,) = make_waterfall(
        Trace("den", (), tuple(make_call(n + 1, n, n, n + 1) for n in range(200)), False), 999
    )
    assert (len(group.lines), len(group.rest)) == (MAX_OPEN_CALLS, 200 - MAX_OPEN_CALLS)
