"""Log compaction: oldest turns and talk in a line each, results and texts cut.

It never fails. The cut is a function of the log alone and moves in large steps, so that requests
between two steps have the same prefix and a provider's cache of it holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sshwarma.common.shorten import join_with_rest
from sshwarma.world.mentions import split_addressees, write_names_plainly
from sshwarma.world.reader import next_call
from sshwarma.world.row import Row
from sshwarma.world.tool_names import model_tool_name
from sshwarma.wrap.layers import ContextMessage
from sshwarma.wrap.tokens import estimate_tokens
from sshwarma.wrap.transcript import INDENT, Transcript, TranscriptEntry

CUT_FRACTION: Final = 0.5
"""Fraction of the budget that is cut at once, if anything must be cut.

So a talk-heavy room, where a question comes with a fifth of the budget, keeps its prefix for every
second question, and half of what fits is always shown.
"""

SUMMARY_FRACTION: Final = 0.2
"""Fraction of the budget for the summary, if anything is summarized."""

CUT_TIERS: Final = ((600, 4_000), (200, 1_000), (80, 300), (40, 80))
"""Maximum characters of results and of texts: tried in order when a single turn is too long.

The turn keeps all its rows.
"""

MAX_SUMMARY_LINES: Final = 40
"""Maximum number of turns and pieces of talk with a line of their own; earlier ones are counted."""

MAX_SUMMARY_NAMES: Final = 8
"""Maximum number of speakers named in such a line."""

TALK_UNIT_ROWS: Final = 10
"""Rows of talk that share a line of the summary."""

_TALK: Final = "talk:"
_JOURNAL: Final = "journal"

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
    """Return the rows as messages of at most about `budget` tokens, if possible."""
    entries = transcript.render_rows(rows)
    total = _count_tokens(entries)
    if total <= budget:
        return CompactedLog(tuple(entry.message for entry in entries))
    summary_tokens = int(budget * SUMMARY_FRACTION)
    budget -= summary_tokens
    step_tokens = max(1, budget * CUT_FRACTION)
    cut_units = _choose_cut_units(entries, math.ceil((total - budget) / step_tokens) * step_tokens)
    kept_rows = [row for row in rows if _cut_unit_of(row) not in cut_units]
    cut_turn_ids = frozenset(unit for unit in cut_units if not unit.startswith(_TALK))
    cut_rows = [row for row in rows if _cut_unit_of(row) in cut_units]
    notes = [_describe_cut(cut_rows, len(cut_turn_ids))] if cut_units else []
    entries = transcript.render_rows(kept_rows)
    for results, texts in CUT_TIERS:
        if _count_tokens(entries) <= budget:
            break
        entries = replace(
            transcript, max_result_characters=results, max_text_characters=texts
        ).render_rows(kept_rows)
        notes[bool(cut_units) :] = [f"results cut to {results} characters"]
    messages = tuple(entry.message for entry in entries)
    if _count_tokens(entries) > budget:
        messages, omitted_count = _newest_that_fit(entries, budget)
        notes.append(f"{omitted_count} older lines omitted")
    summary = _summarize_units(cut_rows, transcript, MAX_SUMMARY_LINES)
    count = MAX_SUMMARY_LINES
    while count > 1 and estimate_tokens(summary) > summary_tokens:
        count //= 2
        summary = _summarize_units(cut_rows, transcript, count)
    return CompactedLog(messages, summary, cut_turn_ids, ", ".join(notes))


def _cut_unit_of(row: Row) -> str:
    """Return the unit that a row is cut with.

    It is the turn, or the row itself if it is talk of no turn. Entries of the journal are kept
    longer than talk: their unit is never summarized.
    """
    if row.turn_id is None and row.kind.startswith("journal."):
        return _JOURNAL
    return row.turn_id or f"{_TALK}{row.id}"


def _summary_unit_of(row: Row) -> str:
    """Return the unit that a row shares a line of the summary with."""
    return row.turn_id or f"{_TALK}{row.seq // TALK_UNIT_ROWS}"


def _choose_cut_units(entries: Sequence[TranscriptEntry], tokens: float) -> frozenset[str]:
    """Return the oldest units that have that many tokens; never the newest one."""
    costs: dict[str, int] = {}
    for entry in entries:
        unit = _cut_unit_of(entry.row)
        costs[unit] = costs.pop(unit, 0) + entry.message.tokens  # ordered by their last row
    chosen: set[str] = set()
    for unit in [unit for unit in costs if unit != _JOURNAL][:-1]:
        if tokens <= 0:
            break
        chosen.add(unit)
        tokens -= costs[unit]
    return frozenset(chosen)


def _count_tokens(entries: Sequence[TranscriptEntry]) -> int:
    return sum(entry.message.tokens for entry in entries)


def _describe_cut(rows: Sequence[Row], turn_count: int) -> str:
    messages = sum(row.turn_id is None for row in rows)
    parts = [f"{turn_count} older turns"] if turn_count else []
    parts += [f"{messages} messages"] if messages else []
    return f"{' and '.join(parts)} summarized"


def _newest_that_fit(
    entries: Sequence[TranscriptEntry], budget: int
) -> tuple[tuple[ContextMessage, ...], int]:
    """Return the newest messages that fit, and the number of older messages left out.

    They start at a multiple of CUT_STEP_LINES if there are that many; the last message and the
    question of its turn always stay.
    """
    turn_id = entries[-1].row.turn_id
    question = next(
        (entry for entry in entries if turn_id and entry.row.turn_id == turn_id), entries[-1]
    )
    size = question.message.tokens
    first = len(entries)
    while first and size + entries[first - 1].message.tokens <= budget:
        first -= 1
        size += entries[first].message.tokens
    rounded = -(-first // CUT_STEP_LINES) * CUT_STEP_LINES
    first = min(rounded if rounded < len(entries) else first, len(entries) - 1)
    kept = [entry.message for entry in entries[first:]]
    before = [question.message] if question in entries[:first] else []
    omitted_count = first - len(before)
    mark = ContextMessage("user", f"[{omitted_count} earlier lines omitted]")
    return (*before, mark, *kept), omitted_count


_SINGLE_MARKS: Final = str.maketrans({"“": "‘", "”": "’"})


def _summarize_units(rows: Sequence[Row], transcript: Transcript, count: int) -> str:
    """Return a line per unit, in order of last rows; the oldest are only counted."""
    units: dict[str, list[Row]] = {}
    for row in rows:
        unit = _summary_unit_of(row)
        units[unit] = [*units.pop(unit, []), row]
    if not units:
        return ""
    shown = list(units.values())[-count:]
    older_rows = [row for unit in list(units.values())[: -len(shown)] for row in unit]
    hint = next_call("; {} reads a row in full", "expand", row=rows[0].seq).text(transcript.reader)
    lines = [f"[Earlier messages, summarized{hint}]"]
    if older_rows:
        speakers = _join_speakers(older_rows, transcript)
        lines.append(
            f"{INDENT}- {_format_row_range(older_rows)}: {len(older_rows)} rows by {speakers}"
        )
    for unit_rows in shown:
        summarize = _summarize_turn if unit_rows[0].turn_id else _summarize_talk
        lines.append(INDENT + summarize(unit_rows, transcript))
    return write_names_plainly("\n".join(lines), transcript.agents)


def _format_row_range(rows: Sequence[Row]) -> str:
    return f"rows {rows[0].seq}-{rows[-1].seq}"


def _join_speakers(rows: Sequence[Row], transcript: Transcript) -> str:
    names = dict.fromkeys(transcript.agents.name_of(row.author_id) for row in rows)
    return join_with_rest(list(names), MAX_SUMMARY_NAMES)


def _summarize_talk(rows: Sequence[Row], transcript: Transcript) -> str:
    """Return talk in a line: message counts by sender, first and last one, tools."""
    messages = _messages_of(rows)
    what = f"{len(messages)} messages" if messages else f"{len(rows)} rows"
    speakers = _join_speakers(messages or rows, transcript)
    parts = [f"- {_format_row_range(rows)}: {what} by {speakers}"]
    if messages:
        parts[-1] += ";"
        parts.append(_quote(messages[0], transcript))
    if len(messages) > 1:
        parts.append(f"… {_quote(messages[-1], transcript)}")
    return " ".join([*parts, *_describe_calls(rows)])


def _summarize_turn(rows: Sequence[Row], transcript: Transcript) -> str:
    """Return one turn in a line: the question, the tools, the last message."""
    messages = _messages_of(rows)
    parts = [f"- {_format_row_range(rows)}:"]
    if messages:
        parts.append(_quote(messages[0], transcript))
    parts += _describe_calls(rows)
    if len(messages) > 1:
        parts.append(f"→ {_quote(messages[-1], transcript)}")
    return " ".join(parts)


def _messages_of(rows: Sequence[Row]) -> list[Row]:
    """Return what somebody said: no results of tools, which nobody did."""
    return [row for row in rows if row.kind in ("chat", "emote")]


def _describe_calls(rows: Sequence[Row]) -> list[str]:
    calls = (row for row in rows if row.kind == "tool.call")
    tools = dict.fromkeys(model_tool_name(str(row.meta.get("tool"))) for row in calls)
    return [f"[called {', '.join(tools)}]"] if tools else []


def _quote(row: Row, transcript: Transcript) -> str:
    """Return the start of a message behind its speaker: alice to qwen: “what broke?”.

    No text can end its quotation, and go on as another speaker: its own marks become single ones.
    """
    agents = transcript.agents
    speaker, text = split_addressees(agents.name_of(row.author_id), row.content, agents)
    return f"{speaker}: “{_cut_to_summary(text.translate(_SINGLE_MARKS))}”"


def _cut_to_summary(text: str) -> str:
    line = " ".join(text.split())
    return (
        line
        if len(line) <= MAX_ROW_SUMMARY_CHARACTERS
        else line[: MAX_ROW_SUMMARY_CHARACTERS - 1] + "…"
    )
