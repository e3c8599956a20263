"""Log compaction: oldest turns and talk in a line each, results and texts cut.

It never fails. The cut is a function of the log alone and moves in large steps, so that requests
between two steps have the same prefix and a provider's cache of it holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from sshwarma.common.limits import MAX_CONTEXT_TEXT_CHARACTERS, MAX_RESULT_CHARACTERS
from sshwarma.common.shorten import join_with_rest
from sshwarma.world.mentions import split_addressees, write_names_plainly
from sshwarma.world.reader import next_call
from sshwarma.world.row import Row
from sshwarma.world.tool_names import model_tool_name
from sshwarma.wrap.layers import ContextCall, ContextMessage
from sshwarma.wrap.tokens import MESSAGE_OVERHEAD_TOKENS, estimate_tokens
from sshwarma.wrap.transcript import (
    CALL_KINDS,
    INDENT,
    RowPart,
    Transcript,
    TranscriptEntry,
    join_parts,
)

CUT_FRACTION: Final = 0.5
"""Fraction of the budget that is cut at once, if anything must be cut.

So a talk-heavy room, where a question comes with a fifth of the budget, keeps its prefix for every
second question, and half of what fits is always shown.
"""

SUMMARY_FRACTION: Final = 0.2
"""Fraction of the budget for the summary, if anything is summarized."""

CUT_TIERS: Final = (
    (5_000, MAX_RESULT_CHARACTERS, MAX_CONTEXT_TEXT_CHARACTERS),
    (600, MAX_RESULT_CHARACTERS, 4_000),
    (600, 5_000, 4_000),
    (200, 600, 1_000),
    (80, 80, 300),
    (40, 40, 80),
)
"""Maximum characters of results, of those of tools that say KEEP, and of texts: tried in order when
a single turn is too long.

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

    Attributes:
        cut_row_ids: rows that are in the summary, or only counted there.
        first_seq: number of the first row that is sent; earlier ones are omitted.
        question_id: of the row that is sent nevertheless: the turn of the last one begins with it.
        transcript: how the rows were formatted that are sent.
    """

    lines: tuple[ContextMessage, ...]
    transcript: Transcript
    summary: str = ""
    cut_turn_ids: frozenset[str] = frozenset()
    note: str = ""
    cut_row_ids: frozenset[str] = frozenset()
    first_seq: int = 0
    question_id: str = ""


def compact_log(rows: Sequence[Row], transcript: Transcript, budget: int) -> CompactedLog:
    """Return the rows as messages of at most about `budget` tokens, if possible.

    The one path that shortens a log: for requests, for the second one after a context was too
    long, and for previews.
    """
    parts = transcript.render_parts(rows)
    units = _UnitsOfRows(rows)
    costs = _count_units(parts, units)
    total = sum(costs.values())
    if total <= budget:
        return CompactedLog(tuple(entry.message for entry in join_parts(parts)), transcript)
    summary_tokens = int(budget * SUMMARY_FRACTION)
    budget -= summary_tokens
    step_tokens = max(1, budget * CUT_FRACTION)
    cut_units = _choose_cut_units(costs, math.ceil((total - budget) / step_tokens) * step_tokens)
    cut_rows = units.list_rows(rows, cut_units)
    cut_row_ids = frozenset(row.id for row in cut_rows)
    cut_turn_ids = frozenset(unit for unit in cut_units if not unit.startswith(_TALK))
    notes = [_describe_cut(cut_rows, len(cut_turn_ids))] if cut_units else []
    entries = join_parts([part for part in parts if part.row.id not in cut_row_ids])
    used = transcript
    for results, kept, texts in CUT_TIERS:
        if _count_tokens(entries) <= budget:
            break
        used = replace(
            transcript,
            max_result_characters=results,
            max_kept_characters=kept,
            max_text_characters=texts,
            cache=None,
        )
        entries = used.render_rows([row for row in rows if row.id not in cut_row_ids])
        rest = f", those to keep to {kept:,}" if kept != results else ""
        notes[bool(cut_units) :] = [f"results cut to {results:,} characters{rest}"]
    messages = tuple(entry.message for entry in entries)
    first_seq = 0
    if _count_tokens(entries) > budget:
        first = _find_first_fitting(entries, budget)
        messages, omitted_count = _newest_messages(entries, first)
        first_seq = entries[first].row.seq
        notes.append(f"{omitted_count} older lines omitted")
    return CompactedLog(
        messages,
        used,
        summarize_rows(cut_rows, transcript, summary_tokens),
        cut_turn_ids,
        ", ".join(notes),
        cut_row_ids,
        first_seq,
        _find_question(entries).row.id if first_seq else "",
    )


class _UnitsOfRows:
    """The unit that each row of a log is cut with.

    It is the turn, or the row itself if it is talk of no turn; a call outside turns has its result
    and its nested calls in its unit. Entries of the journal are kept longer than talk: their unit
    is never summarized.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._calls = {row.id: row for row in rows if row.kind == "tool.call" and not row.turn_id}

    def find(self, row: Row) -> str:
        """Return the unit of a row."""
        if row.turn_id is not None:
            return row.turn_id
        if row.kind.startswith("journal."):
            return _JOURNAL
        while row.kind in CALL_KINDS and (call := self._calls.get(row.parent_row_id or "")):
            row = call
        return _TALK + row.id

    def list_rows(self, rows: Sequence[Row], units: Set[str]) -> list[Row]:
        """Return the rows in some units."""
        if not units:
            return []
        return [row for row in rows if (row.turn_id or self.find(row)) in units]


def _count_units(parts: Sequence[RowPart], units: _UnitsOfRows) -> dict[str, int]:
    """Return the tokens of each unit, ordered by their last row."""
    costs: dict[str, int] = {}
    last = ""
    for row, sent in parts:
        tokens = 0 if sent is None else sent.tokens
        if type(sent) is ContextCall:
            tokens += MESSAGE_OVERHEAD_TOKENS  # it may be a message of its own
        unit = row.turn_id or units.find(row)
        costs[unit] = tokens + (costs[unit] if unit == last else costs.pop(unit, 0))
        last = unit
    return costs


def _choose_cut_units(costs: Mapping[str, int], tokens: float) -> frozenset[str]:
    """Return the oldest units that have that many tokens; never the newest one."""
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


def _find_question(entries: Sequence[TranscriptEntry]) -> TranscriptEntry:
    """Return the entry that the turn of the last one begins with."""
    turn_id = entries[-1].row.turn_id
    return next(
        (entry for entry in entries if turn_id and entry.row.turn_id == turn_id), entries[-1]
    )


def _find_first_fitting(entries: Sequence[TranscriptEntry], budget: int) -> int:
    """Return the index of the first newest entry that fits with the question.

    It is a multiple of CUT_STEP_LINES if there are that many; the last entry always stays.
    """
    size = _find_question(entries).message.tokens
    first = len(entries)
    while first and size + entries[first - 1].message.tokens <= budget:
        first -= 1
        size += entries[first].message.tokens
    rounded = -(-first // CUT_STEP_LINES) * CUT_STEP_LINES
    return min(rounded if rounded < len(entries) else first, len(entries) - 1)


def _newest_messages(
    entries: Sequence[TranscriptEntry], first: int
) -> tuple[tuple[ContextMessage, ...], int]:
    """Return the messages from an index on, and the number of older ones.

    The question of the last turn always stays.
    """
    question = _find_question(entries)
    kept = [entry.message for entry in entries[first:]]
    before = [question.message] if question in entries[:first] else []
    omitted_count = first - len(before)
    mark = ContextMessage("user", f"[{omitted_count} earlier lines omitted]")
    return (*before, mark, *kept), omitted_count


_SINGLE_MARKS: Final = str.maketrans({"“": "‘", "”": "’"})


def summarize_rows(rows: Sequence[Row], transcript: Transcript, tokens: int) -> str:
    """Return a line per unit, in order of last rows.

    They have at most about `tokens` tokens; the oldest units are only counted.
    """
    units: dict[str, list[Row]] = {}
    older: list[Row] = []
    for row in reversed(rows):
        unit = row.turn_id or f"{_TALK}{row.seq // TALK_UNIT_ROWS}"
        if unit in units:
            units[unit].append(row)
        elif len(units) < MAX_SUMMARY_LINES:
            units[unit] = [row]
        else:
            older.append(row)
    if not units:
        return ""
    shown = [unit[::-1] for unit in units.values()][::-1]
    older.reverse()
    summary = _write_summary(shown, older, transcript)
    while len(shown) > 1 and estimate_tokens(summary) > tokens:
        half = len(shown) - len(shown) // 2
        older += [row for unit in shown[:half] for row in unit]
        older.sort(key=attrgetter("seq"))  # talk of ten rows stands around turns
        shown = shown[half:]
        summary = _write_summary(shown, older, transcript)
    return summary


def _write_summary(
    units: Sequence[Sequence[Row]], older: Sequence[Row], transcript: Transcript
) -> str:
    """Return a line for each unit, and one for all rows before."""
    first = older[0] if older else units[0][0]
    hint = next_call("; {} reads a row in full", "expand", row=first.seq).text(transcript.reader)
    lines = [f"[Earlier messages, summarized{hint}]"]
    if older:
        speakers = _join_speakers(older, transcript)
        lines.append(f"{INDENT}- {_format_row_range(older)}: {len(older)} rows by {speakers}")
    for unit_rows in units:
        summarize = _summarize_turn if unit_rows[0].turn_id else _summarize_talk
        lines.append(INDENT + summarize(unit_rows, transcript))
    return write_names_plainly("\n".join(lines), transcript.agents)


def _format_row_range(rows: Sequence[Row]) -> str:
    return f"rows {rows[0].seq}-{rows[-1].seq}"


def _join_speakers(rows: Sequence[Row], transcript: Transcript) -> str:
    author_ids = dict.fromkeys(row.author_id for row in rows)
    names = dict.fromkeys(map(transcript.agents.name_of, author_ids))
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
