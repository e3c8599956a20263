"""Log compaction: oldest turns and talk in a line each, results and texts cut.

It never fails. The cut is a function of the log alone and moves in large steps, so that requests
between two steps have the same prefix and a provider's cache of it holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from sshwarma.common.limits import MAX_CONTEXT_TEXT_CHARACTERS, MAX_RESULT_CHARACTERS
from sshwarma.world.leave_out import ToolRetention
from sshwarma.world.row import Row
from sshwarma.world.rows import CALL_KINDS
from sshwarma.wrap.layers import ContextCall, ContextMessage
from sshwarma.wrap.summary import TALK_PREFIX, summarize_rows
from sshwarma.wrap.tokens import MESSAGE_OVERHEAD_TOKENS
from sshwarma.wrap.transcript import (
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

KEPT_CHARACTERS: Final = (
    40_000, 30_000, 22_000, 16_000, 12_000, 9_000, 7_000, 5_000, 3_500, 2_500, 1_800, 1_200, 800,
)  # fmt: skip
"""Maximum characters of results of tools that say KEEP, tried in order: steps of a third, so that
most of what fits stays, and a request often begins like the one before it."""

CUT_TIERS: Final = (
    (5_000, MAX_RESULT_CHARACTERS, MAX_CONTEXT_TEXT_CHARACTERS),
    (600, MAX_RESULT_CHARACTERS, 4_000),
    *((600, kept, 4_000) for kept in KEPT_CHARACTERS),
    (200, 600, 1_000),
    (80, 80, 300),
    (40, 40, 80),
)
"""Maximum characters of results, of those of tools that say KEEP, and of texts: tried in order when
a single turn is too long.

The turn keeps all its rows.
"""

_JOURNAL: Final = "journal"

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


def compact_log(
    rows: Sequence[Row], transcript: Transcript, budget: int, kept_tokens: int = 0
) -> CompactedLog:
    """Return the rows as messages of at most about `budget` tokens, if possible.

    The one path that shortens a log: for requests, for the second one after a context was too
    long, and for previews.

    Args:
        rows: The log.
        transcript: How rows are formatted.
        budget: Tokens of the log.
        kept_tokens: Tokens more that results may take whose tools say KEEP.
    """
    parts = transcript.render_parts(rows)
    units = _UnitsOfRows(rows)
    costs = _count_units(parts, units)
    total = sum(costs.values())
    keepers = _list_keepers(transcript)
    if total > budget and kept_tokens and keepers:
        budget += min(kept_tokens, _count_kept(parts, transcript, keepers))
    if total <= budget:
        return CompactedLog(tuple(entry.message for entry in join_parts(parts)), transcript)
    summary_tokens = int(budget * SUMMARY_FRACTION)
    rest = budget - summary_tokens
    step_tokens = max(1, rest * CUT_FRACTION)
    cut_units = _choose_cut_units(costs, math.ceil((total - rest) / step_tokens) * step_tokens)
    budget = rest if cut_units else budget
    cut_rows = units.list_rows(rows, cut_units)
    cut_row_ids = frozenset(row.id for row in cut_rows)
    cut_turn_ids = frozenset(unit for unit in cut_units if not unit.startswith(TALK_PREFIX))
    notes = [_describe_cut(cut_rows, len(cut_turn_ids))] if cut_units else []
    entries = join_parts([part for part in parts if part.row.id not in cut_row_ids])
    used = transcript
    if _count_tokens(entries) > budget:
        kept_rows = [row for row in rows if row.id not in cut_row_ids]
        entries, used, note = _cut_results(kept_rows, transcript, budget, keeps=bool(keepers))
        notes.append(note)
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


def _list_keepers(transcript: Transcript) -> dict[str, ToolRetention]:
    """Return the tools of which some results are to be kept, by qualified name."""
    return {
        name: retention
        for name, retention in transcript.policies.items()
        if "KEEP" in (retention.whole.mode, *(one.mode for one in retention.per_action.values()))
    }


def _count_kept(
    parts: Sequence[RowPart], transcript: Transcript, keepers: Mapping[str, ToolRetention]
) -> int:
    """Return the tokens of the results in a log whose tools say KEEP."""
    has_actions = any(retention.per_action for retention in keepers.values())
    calls = {row.id: row for row, _ in parts if row.kind == "tool.call"} if has_actions else {}
    return sum(
        sent.tokens
        for row, sent in parts
        if sent is not None
        and row.meta.get("tool") in keepers
        and transcript.policy_of(row, calls.get(row.parent_row_id or row.id)).mode == "KEEP"
    )


def _cut_results(
    rows: Sequence[Row], transcript: Transcript, budget: int, *, keeps: bool
) -> tuple[tuple[TranscriptEntry, ...], Transcript, str]:
    """Return rows with results and texts cut until they fit, if possible.

    With how they were formatted, and a note of it. `keeps`: whether some tool says KEEP.
    """
    entries: tuple[TranscriptEntry, ...] = ()
    used, note = transcript, ""
    for results, kept, texts in CUT_TIERS:
        if not keeps and kept in KEPT_CHARACTERS:  # it would cut nothing more
            continue
        used = replace(
            transcript,
            max_result_characters=results,
            max_kept_characters=kept,
            max_text_characters=texts,
            cache=None,
        )
        entries = used.render_rows(rows)
        others = f", those to keep to {kept:,}" if kept != results else ""
        note = f"results cut to {results:,} characters{others}"
        if _count_tokens(entries) <= budget:
            break
    return entries, used, note


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
        return TALK_PREFIX + row.id

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
    parts = [f"{turn_count} older turn{'s' if turn_count != 1 else ''}"] if turn_count else []
    parts += [f"{messages} message{'s' if messages != 1 else ''}"] if messages else []
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
