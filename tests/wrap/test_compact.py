"""Logs cut to a budget: what is kept, and how often a cut moves."""

from __future__ import annotations

import re

from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.row import Row
from sshwarma.wrap.compact import (
    CUT_FRACTION,
    SUMMARY_FRACTION,
    CompactedLog,
    compact_log,
)
from sshwarma.wrap.summary import summarize_rows
from sshwarma.wrap.transcript import Transcript

AGENTS = AgentDirectory()
AGENTS.load([Agent("m", "helper", "model"), Agent("a", "alice"), Agent("b", "bob")], [])
WORDS = "the relay box hums and its fan turns while nobody looks at it " * 40


def talk(seq: int, characters: int, turn_id: str | None = None) -> Row:
    return Row(
        f"r{seq}", "lobby", seq, "chat", f"{seq} {WORDS}"[:characters], "ab"[seq % 2], 0,
        turn_id=turn_id,
    )  # fmt: skip


def compact(rows: list[Row], budget: int) -> CompactedLog:
    return compact_log(rows, Transcript("m", AGENTS, {}), budget)


def tokens_of(log: CompactedLog) -> int:
    return sum(message.tokens for message in log.lines)


def test_cut_keeps_the_newest_talk_that_fits() -> None:
    """Talk of no turn is cut by rows: ten long lines at once left an empty context."""
    budget = 4_500
    least = budget * (1 - SUMMARY_FRACTION) * (1 - CUT_FRACTION)
    cuts = 0
    for count in range(1, 60):
        log = compact([talk(seq, 1_100) for seq in range(1, count + 1)], budget)
        assert tokens_of(log) <= budget
        if log.summary:
            cuts += 1
            longest = max(message.tokens for message in log.lines)
            assert tokens_of(log) >= least - longest
            assert log.lines[-1].text.startswith(
                f"<{'alice' if count % 2 == 0 else 'bob'}> {count}"
            )
    assert cuts > 40


def test_cut_moves_at_every_second_question_of_a_talk_heavy_room() -> None:
    """Each question comes with a fifth of the budget."""
    budget, rows, moves, before = 24_000, list[Row](), 0, ""
    for question in range(40):
        first = len(rows) + 1
        rows += [talk(seq, 1_500) for seq in range(first, first + 10)]
        rows.append(talk(first + 10, 100, f"t{question}"))
        log = compact(rows, budget)
        oldest = log.lines[0].text
        moves += bool(log.summary) and oldest != before
        before = oldest
    assert 0 < moves <= 22


def test_rows_that_are_only_counted_are_a_range_in_order() -> None:
    """A line for ten rows of talk may stand around a turn that ended before."""
    rows = [talk(1, 300), talk(2, 300, "t"), talk(3, 300)]
    rows += [talk(seq, 300, f"u{seq}") for seq in range(4, 80)]
    summary = summarize_rows(rows, Transcript("m", AGENTS, {}), 200)
    counted = next(line for line in summary.splitlines() if " rows by " in line)
    first, last, count = map(int, re.findall(r"\d+", counted))
    assert first == 1
    assert last - first + 1 == count
