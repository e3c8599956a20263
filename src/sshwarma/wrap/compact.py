"""Log compaction: oldest turns in one line each, results and texts cut; never fails.

The cut is a function of the log alone and moves in large steps, so that requests between two steps
have the same prefix and a provider's cache of it holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sshwarma.world.row import Row
from sshwarma.wrap.layers import ContextMessage
from sshwarma.wrap.tokens import estimate_tokens
from sshwarma.wrap.transcript import Transcript
from sshwarma.wrap.window import assign_turns

CUT_FRACTION: Final = 0.3
"""Fraction of the budget that is cut at once, if anything must be cut."""

CUT_TIERS: Final = ((600, 4_000), (200, 1_000), (80, 300), (40, 80))
"""Most characters of results and of texts: tried in order when a single turn is too long.

The turn keeps all its rows.
"""

MAX_SUMMARY_TURNS: Final = 40
"""Most turns summarized in a line each; earlier ones are counted."""

MAX_ROW_SUMMARY_CHARACTERS: Final = 120
"""Characters of a question or an answer in such a line."""

CUT_STEP_LINES: Final = 50


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """A log that fits its budget.

    `summary` summarizes the turns that were cut, whose ids are `cut_turn_ids`.
    """

    lines: tuple[ContextMessage, ...]
    summary: str = ""
    cut_turn_ids: frozenset[str] = frozenset()
    note: str = ""


def compact_log(rows: Sequence[Row], transcript: Transcript, budget: int) -> CompactedLog:
    """Return the rows as messages of at most about `budget` tokens, as far as possible."""
    entries = [(turn, row, transcript.render_row(row)) for turn, row in assign_turns(rows)]
    costs: dict[str | None, int] = {}
    for turn, _, line in entries:
        costs[turn] = costs.get(turn, 0) + (estimate_tokens(line.text) if line else 0)
    total = sum(costs.values())
    if total <= budget:
        return CompactedLog(tuple(line for _, _, line in entries if line))
    order = [turn for turn in dict.fromkeys(_order_by_last_row(rows)) if turn]
    target_tokens = (
        math.ceil((total - budget) / max(1, budget * CUT_FRACTION)) * budget * CUT_FRACTION
    )
    cut_turns: set[str] = set()
    cut_tokens = 0.0
    for turn in order[:-1]:
        if cut_tokens >= target_tokens:
            break
        cut_turns.add(turn)
        cut_tokens += costs[turn]
    kept_rows = [row for turn, row, _ in entries if turn not in cut_turns]
    cut_rows = [row for turn, row, _ in entries if turn in cut_turns]
    summary = _summarize_turns(cut_rows, [turn for turn in order if turn in cut_turns], transcript)
    lines = transcript.render_rows(kept_rows)
    note = f"{len(cut_turns)} older turns summarized" if cut_turns else ""
    for results, texts in CUT_TIERS:
        if _count_tokens(lines) <= budget:
            break
        lines = replace(
            transcript, max_result_characters=results, max_text_characters=texts
        ).render_rows(kept_rows)
        note = f"{note}, results cut to {results} characters".lstrip(", ")
    if _count_tokens(lines) > budget:
        lines, omitted_count = _newest_that_fit(lines, budget)
        note = f"{note}, {omitted_count} older lines omitted".lstrip(", ")
    return CompactedLog(lines, summary, frozenset(cut_turns), note)


def _order_by_last_row(rows: Sequence[Row]) -> list[str | None]:
    """Return the turns of a log, in order of their last row."""
    last_seqs = {row.turn_id: row.seq for row in rows}
    return sorted(last_seqs, key=lambda turn: last_seqs[turn])


def _count_tokens(lines: Sequence[ContextMessage]) -> int:
    return sum(estimate_tokens(line.text) for line in lines)


def _newest_that_fit(
    lines: tuple[ContextMessage, ...], budget: int
) -> tuple[tuple[ContextMessage, ...], int]:
    """Return the newest lines that fit, and the number of older lines left out.

    They start at a multiple of CUT_STEP_LINES if there are that many; the last line always stays.
    """
    size = 0
    first = len(lines)
    while first and size + estimate_tokens(lines[first - 1].text) <= budget:
        first -= 1
        size += estimate_tokens(lines[first].text)
    rounded = -(-first // CUT_STEP_LINES) * CUT_STEP_LINES
    first = min(rounded if rounded < len(lines) else first, len(lines) - 1)
    mark = ContextMessage("user", f"[{first} earlier lines omitted]")
    return (mark, *lines[first:]), first


def _summarize_turns(rows: Sequence[Row], order: Sequence[str], transcript: Transcript) -> str:
    if not order:
        return ""
    turns = order[-MAX_SUMMARY_TURNS:]
    older_count = len(order) - len(turns)
    head = "Earlier turns, summarized; use expand to read a row in full:"
    older_lines = [f"- {older_count} earlier turns"] if older_count else []
    summaries = (
        _summarize_turn([row for row in rows if row.turn_id == turn], transcript) for turn in turns
    )
    return "\n".join([head, *older_lines, *summaries])


def _summarize_turn(rows: Sequence[Row], transcript: Transcript) -> str:
    """Return one turn in a line: the question, the tools, the last message."""
    messages = [row for row in rows if row.kind in ("chat", "emote")]
    tools = dict.fromkeys(str(row.meta.get("tool")) for row in rows if row.kind == "tool.call")
    parts = [f"- rows {rows[0].seq}-{rows[-1].seq}:"]
    if messages:
        author = transcript.agents.name_of(messages[0].author_id)
        parts.append(f"{author}: {_shorten_text(messages[0].content)}")
    if tools:
        parts.append(f"[called {', '.join(tools)}]")
    if len(messages) > 1:
        last = messages[-1]
        parts.append(
            f"→ {transcript.agents.name_of(last.author_id)}: {_shorten_text(last.content)}"
        )
    return " ".join(parts)


def _shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return (
        line
        if len(line) <= MAX_ROW_SUMMARY_CHARACTERS
        else line[: MAX_ROW_SUMMARY_CHARACTERS - 1] + "…"
    )
