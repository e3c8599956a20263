"""Summaries of turns and talk that a log has no room for: a line each."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from sshwarma.common.shorten import join_with_rest
from sshwarma.world.mentions import split_addressees, write_names_plainly
from sshwarma.world.reader import next_call
from sshwarma.world.row import Row
from sshwarma.world.tool_names import model_tool_name
from sshwarma.wrap.tokens import estimate_tokens
from sshwarma.wrap.transcript import INDENT, Transcript

MAX_SUMMARY_LINES: Final = 40
"""Maximum number of turns and pieces of talk with a line of their own; earlier ones are counted."""

MAX_SUMMARY_NAMES: Final = 8
"""Maximum number of speakers named in such a line."""

TALK_UNIT_ROWS: Final = 10
"""Rows of talk that share a line of the summary."""

MAX_ROW_SUMMARY_CHARACTERS: Final = 120
"""Characters of a question or an answer in such a line."""

TALK_PREFIX: Final = "talk:"
"""What the unit of a row begins with that belongs to no turn."""

_SINGLE_MARKS: Final = str.maketrans({"“": "‘", "”": "’"})


def summarize_rows(rows: Sequence[Row], transcript: Transcript, tokens: int) -> str:
    """Return a line per unit, in order of last rows.

    They have at most about `tokens` tokens; the oldest units are only counted.
    """
    units: dict[str, list[Row]] = {}
    older: list[Row] = []
    for row in reversed(rows):
        unit = row.turn_id or f"{TALK_PREFIX}{row.seq // TALK_UNIT_ROWS}"
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
    speaker, text = split_addressees(agents.name_author(row), row.content, agents)
    return f"{speaker}: “{_cut_to_summary(text.translate(_SINGLE_MARKS))}”"


def _cut_to_summary(text: str) -> str:
    line = " ".join(text.split())
    return (
        line
        if len(line) <= MAX_ROW_SUMMARY_CHARACTERS
        else line[: MAX_ROW_SUMMARY_CHARACTERS - 1] + "…"
    )
