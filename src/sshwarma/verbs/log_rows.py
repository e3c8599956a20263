"""Views of rows of a room's log: talk, notices, answers, tool calls and results."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sshwarma.common.limits import (
    MAX_SHOWN_ANSWER_CHARACTERS,
    MAX_SHOWN_ANSWER_LINES,
    MAX_SHOWN_RESULT_CHARACTERS,
    MAX_SHOWN_RESULT_LINES,
    MAX_SHOWN_ROW_CHARACTERS,
    MAX_SHOWN_ROW_LINES,
)
from sshwarma.common.shorten import flatten_text
from sshwarma.terminal.markdown import render_markdown
from sshwarma.terminal.markdown_results import has_table, render_indented
from sshwarma.terminal.text import (
    Block,
    Line,
    Span,
    Table,
    block,
    line,
    lines_with_head,
    remove_bold,
    split_bold,
)
from sshwarma.tools.approvals import APPROVAL_KEY
from sshwarma.verbs.question_row import draw_question
from sshwarma.verbs.views import EMPTY_BLOCK, format_call_time, format_clock, format_count
from sshwarma.world import mentions
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.calls import CHANGES_KEY
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import PERSON, Reader, next_call
from sshwarma.world.row import Row

MAX_FOLDED_CHARACTERS: Final = 100
"""Characters of a folded tool call, result or thought."""

MAX_VALUE_CHARACTERS: Final = 40
"""Characters of one argument of a folded tool call; a longer one is cut."""

MAX_TOOL_NAME_CHARACTERS: Final = 80
"""Characters of a tool's name."""

MAX_MATCH_SNIPPET_CHARACTERS: Final = 200
"""Characters of a row that a search shows."""

MAX_PARSED_CHARACTERS: Final = 50_000
"""Longer arguments of a call are shown as JSON text, without parsing them."""

ToolView = Literal["folded", "full", "hidden"]


@dataclass(frozen=True, slots=True)
class RowDisplayOptions:
    """The display settings of a viewer; viewers with equal settings share drawn rows.

    Attributes:
        timestamps: whether each row begins with its time.
        markdown: whether Markdown of models is drawn, or shown as text.
        tools: how tool calls are shown; `hidden` shows only failures.
        reader: who reads the rows, which decides how calls are named.
        can_answer: whether the viewer may answer the room's questions for approvals.
        has_keys: whether the viewer has keys that answer them.
    """

    timestamps: bool = False
    markdown: bool = False
    tools: ToolView = "folded"
    reader: Reader = PERSON
    can_answer: bool = True
    has_keys: bool = True


DEFAULT_ROW_DISPLAY: Final = RowDisplayOptions()
"""The display settings of programs."""


def is_by_model(row: Row, agents: AgentDirectory) -> bool:
    """Return whether a row is a message of a model."""
    author = agents.get(row.author_id)
    return row.kind == "chat" and author is not None and author.kind == "model"


def cut_answer_text(row: Row) -> str:
    """Return the part of a model's answer that is shown."""
    return cut_long_text(row.content)


def cut_long_text(text: str) -> str:
    """Return the part of a text that a list of rows shows."""
    return _cut_text(text, MAX_SHOWN_ANSWER_LINES, MAX_SHOWN_ANSWER_CHARACTERS)


def is_row_visible(row: Row, reading: RowDisplayOptions) -> bool:
    """Return whether a viewer with these settings sees any part of a row.

    A call that another call made is folded into the result of that one.
    """
    if row.meta.get("nested") and reading.tools != "full":
        return False
    return reading.tools != "hidden" or row.kind not in ("tool.call", "tool.result")


def draw_row(
    row: Row,
    agents: AgentDirectory,
    viewer_id: str | None,
    reading: RowDisplayOptions = DEFAULT_ROW_DISPLAY,
) -> Block:
    """Draw a row of a log for one viewer; return an empty Block if the row is hidden."""
    if not is_row_visible(row, reading):
        return EMPTY_BLOCK
    stamp: list[Span] = (
        [("time", format_clock(row.created_at)), ("", " ")] if reading.timestamps else []
    )
    author, reader = agents.name_author(row), reading.reader
    if row.kind == "chat":
        return _draw_chat(
            stamp, author=author, row=row, agents=agents, viewer_id=viewer_id, reading=reading
        )
    if row.kind.startswith("tool."):
        return _draw_tool_row(stamp, author, row, reading)
    match row.kind:
        case "emote":
            return _draw_said([*stamp, ("emote", f"* {author} ")], row, "emote", reader)
        case "tell":
            recipient = agents.name_of(row.meta.get("to"))
            is_own = row.author_id is not None and row.author_id == viewer_id
            ends = f"you → {recipient}" if is_own else f"{author} → you"
            return _draw_said([*stamp, ("private", ends), ("", ": ")], row, "private", reader)
        case "presence":
            return block(line(*stamp, ("presence", f"· {author} {row.content}"), hang=2))
        case kind if kind.startswith("journal."):
            label = kind.removeprefix("journal.")
            head: list[Span] = [*stamp, ("heading", f"[{label}] "), ("name", author), ("", ": ")]
            return _draw_said(head, row, "text", reader)
        case "thought":
            return _draw_folded([*stamp, ("dim", f"… {author} thought: ")], row, "dim", reader)
        case _:
            return _draw_notice(stamp, author, row, reading)


def _draw_chat(
    stamp: list[Span],
    author: str,
    row: Row,
    agents: AgentDirectory,
    viewer_id: str | None,
    reading: RowDisplayOptions,
) -> Block:
    """Draw a message of a person or a model; it stands out if it mentions the viewer."""
    reader = reading.reader
    is_own = row.author_id is not None and row.author_id == viewer_id
    viewer = agents.get(viewer_id)
    is_mention = (
        viewer is not None and not is_own and mentions.has_mention(row.content, viewer.name)
    )
    text_style = "mention" if is_mention else "text"
    if not is_by_model(row, agents):
        head: list[Span] = [*stamp, ("self" if is_own else "name", author), ("", ": ")]
        return _draw_said(head, row, text_style, reader)
    if reading.markdown:
        return _draw_answer([*stamp, ("mention" if is_mention else "model", author)], row, reader)
    return _draw_speech(
        [*stamp, ("model", author), ("", ": ")], row, cut_answer_text(row), text_style, reader
    )


def _draw_notice(stamp: list[Span], author: str, row: Row, reading: RowDisplayOptions) -> Block:
    """Draw a notice, and the agent that caused it, if any."""
    reader = reading.reader
    prefix = f"{author} " if row.author_id is not None else ""
    if row.meta.get(APPROVAL_KEY) is not None and reader.is_person:
        text = cut_long_text(row.content)
        remainder = _draw_remainder(row, text, reader)
        head: list[Span] = [*stamp, ("warn", f"? {prefix}")]
        answers = {"is_for_others": not reading.can_answer, "has_keys": reading.has_keys}
        return draw_question(head, row, text, remainder, **answers)
    return _draw_said([*stamp, ("notice", f"· {prefix}")], row, "notice", reader)


def _draw_said(head: list[Span], row: Row, style: str, reader: Reader) -> Block:
    return _draw_speech(
        head,
        row,
        _cut_text(row.content, MAX_SHOWN_ROW_LINES, MAX_SHOWN_ROW_CHARACTERS),
        style,
        reader,
    )


def _draw_speech(head: list[Span], row: Row, text: str, style: str, reader: Reader) -> Block:
    return block(
        *lines_with_head(*head, text=text, style=style), *_draw_remainder(row, text, reader)
    )


def _draw_answer(head: list[Span], row: Row, reader: Reader) -> Block:
    """Draw the answer of a model, with its Markdown."""
    text = cut_answer_text(row)
    lines: list[Line | Table] = render_markdown(*head, ("", ": "), text=text)
    return block(*lines, *_draw_remainder(row, text, reader))


def _cut_text(text: str, lines: int, characters: int) -> str:
    """Cut a text to a number of lines and of characters."""
    return "\n".join(text[:characters].split("\n", lines)[:lines])


def make_snippet(text: str, words: str = "") -> str:
    """Cut a text to one line of MAX_MATCH_SNIPPET_CHARACTERS, around the first match."""
    flat = " ".join(text.split())
    if len(flat) <= MAX_MATCH_SNIPPET_CHARACTERS:
        return flat
    haystack = flat.casefold()
    places = [haystack.find(word) for word in words.casefold().replace('"', " ").split()]
    position = min((place for place in places if place >= 0), default=0)
    start = max(
        0,
        min(
            position - MAX_MATCH_SNIPPET_CHARACTERS // 4,
            len(flat) - MAX_MATCH_SNIPPET_CHARACTERS + 1,
        ),
    )
    snippet = flat[start : start + MAX_MATCH_SNIPPET_CHARACTERS - 1]
    return f"{'…' if start else ''}{snippet}{'…' if start + len(snippet) < len(flat) else ''}"


def _draw_remainder(row: Row, text: str, reader: Reader) -> list[Line]:
    return draw_remainder(row.seq, len(row.content) - len(text), reader)


def draw_remainder(seq: int, count: int, reader: Reader, *, agent: str | None = None) -> list[Line]:
    """Draw the call that shows the rest of a row; no line if none of it was cut.

    Args:
        agent: @NAME, whose private messages with the reader have the row; None for the room's log.
    """
    if not count:
        return []
    hint = reader.hint(": {}", "history show", agent=agent, row=seq)
    return [line("  ", ("dim", f"… {count} more characters{hint}"))]


# Tools.


def _draw_tool_row(stamp: list[Span], author: str, row: Row, reading: RowDisplayOptions) -> Block:
    """Draw a tool call, its result, or why it failed."""
    tools, reader = reading.tools, reading.reader
    match row.kind:
        case "tool.call":
            return _draw_call(stamp, author, row, tools, reader)
        case "tool.result":
            return _draw_tool_result(stamp, row, tools, reader)
        case "tool.error" | "tool.timeout":
            duration = f"{_format_call_facts(row)} · "
            head: list[Span] = [
                *stamp, ("error", "  ✗ "), ("tool", _tool_name(row, reader)), ("dim", duration),
            ]  # fmt: skip
            return _draw_folded(head, row, "warn", reader)
        case _:
            return _draw_notice(stamp, author, row, reading)


def _draw_call(stamp: list[Span], author: str, row: Row, tools: ToolView, reader: Reader) -> Block:
    budget, most = MAX_FOLDED_CHARACTERS, MAX_VALUE_CHARACTERS
    if tools == "full":
        budget = most = MAX_SHOWN_RESULT_CHARACTERS
    head: Span = ("tool", f"⚙ {author} → {_tool_name(row, reader)}")
    spans, is_whole = _draw_values(_parse_object(row.content), budget, most)
    more = [] if is_whole else _draw_more_hint(row, reader)
    return block(line(*stamp, head, *spans, *more, hang=4))


def _draw_values(values: list[tuple[str, Any]], budget: int, most: int) -> tuple[list[Span], bool]:
    """Draw values by name, each of `most` and all of `budget` characters.

    Returns:
        The spans, and whether all is in them.
    """
    spans: list[Span] = []
    is_whole = True
    for name, value in values:
        if budget <= 0:
            return spans, False
        label = f" {flatten_text(name, MAX_VALUE_CHARACTERS)}=" if name else " "
        text, complete = _format_value(value, min(most, budget))
        spans += [("dim", label), ("text", text)]
        budget -= len(label) + len(text)
        is_whole = is_whole and complete
    return spans, is_whole


def _parse_object(content: str) -> list[tuple[str, Any]]:
    """Parse a JSON object; anything else is one value without a name."""
    try:
        arguments = json.loads(content) if len(content) <= MAX_PARSED_CHARACTERS else None
    except (ValueError, RecursionError):
        arguments = None
    return list(arguments.items()) if isinstance(arguments, dict) else [("", content)]


def _format_value(value: Any, limit: int) -> tuple[str, bool]:
    """Format a value in at most `limit` characters; return whether all of it fits."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\n", "\\n")  # as in JSON: a blank would be another text
    excerpt = flatten_text(text, limit)
    if isinstance(value, str) and (not excerpt or re.search(r"[\s\"'\\]", excerpt)):
        return f'"{excerpt}"', excerpt == text
    return excerpt, excerpt == text


def _draw_tool_result(stamp: list[Span], row: Row, tools: ToolView, reader: Reader) -> Block:
    text = row.content.strip("\n")
    if tools == "folded":
        row = replace(row, content=remove_bold(row.content))
    head: list[Span] = [
        *stamp,
        ("ok", "  ✓ "),
        ("tool", _tool_name(row, reader)),
        ("dim", _format_call_facts(row)),
    ]
    if row.meta.get("calls") and tools != "full":
        way = reader.hint(": {}", "history show", tools=True)
        head.append(("dim", f" · {format_count(row.meta['calls'], 'call')} inside{way}"))
    if row.meta.get("attachments"):
        call = reader.name_call("attachment", row=row.seq) or "has attachments"
        head += [("dim", " · "), ("verb", call)]
    if row.meta.get("renderer"):
        head.append(("dim", f" · {row.meta['renderer']}"))
        values = _parse_object(text)
        if tools == "folded" and any(name for name, _ in values):
            spans, _ = _draw_values(values, MAX_FOLDED_CHARACTERS, MAX_VALUE_CHARACTERS)
            more = _draw_more_hint(row, reader)  # also if all is here: a renderer shows it better
            return block(line(*head, ("dim", " ·"), *spans, *more, hang=4))
    if len(text) <= MAX_FOLDED_CHARACTERS and "\n" not in text:
        more = _draw_more_hint(row, reader) if row.meta.get("renderer") else []
        return block(line(*head, ("dim", f" · {text or 'nothing'}"), *more, hang=4))
    head.append(("dim", f" · {_format_size(text)}"))
    if tools == "folded":
        return _draw_folded([*head, ("dim", " · ")], row, "dim", reader)
    excerpt = _cut_text(text, MAX_SHOWN_RESULT_LINES, MAX_SHOWN_RESULT_CHARACTERS)
    lines = [line("    ", *split_bold(part), hang=4) for part in excerpt.split("\n")]
    is_cut = len(excerpt) < len(text)
    if not is_cut and has_table(text):
        return block(line(*head, hang=4), *render_indented("    ", text))
    hint = [line("    ", ("dim", "…"), *_draw_more_hint(row, reader))] if is_cut else []
    return block(line(*head, hang=4), *lines, *hint)


def _draw_folded(head: list[Span], row: Row, style: str, reader: Reader) -> Block:
    """Draw the start of a row on one line, and how to show the rest if it is cut."""
    excerpt = flatten_text(row.content, MAX_FOLDED_CHARACTERS)
    if excerpt == row.content.strip():
        return block(line(*head, (style, excerpt), hang=4))
    return block(
        Line((*head, (style, excerpt), *_draw_more_hint(row, reader)), hang=4, fold=len(head))
    )


def _draw_more_hint(row: Row, reader: Reader) -> list[Span]:
    hint = reader.hint(" {}", "expand", row=row.seq)
    return [("verb", hint)] if hint else []


def _tool_name(row: Row, reader: Reader) -> str:
    """Return the reader's name of the tool, or the name that a model used for it."""
    name = reader.name_tool(str(row.meta.get("tool", "")))
    return flatten_text(name, MAX_TOOL_NAME_CHARACTERS)


def _format_call_facts(row: Row) -> str:
    """Format how long a call ran, and what it changed of the files."""
    seconds, changes = row.meta.get("seconds"), row.meta.get(CHANGES_KEY)
    facts = f" · {changes}" if changes else ""
    if not isinstance(seconds, (int, float)):
        return facts
    return f" {format_call_time(seconds, row.meta.get('waited'))}{facts}"


def _format_size(text: str) -> str:
    """Format the size of a text: `12 lines, 3.4 kB`."""
    size = len(text.encode(errors="replace"))
    amount = f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"
    count = text.count("\n") + 1
    return amount if count == 1 else f"{count} lines, {amount}"


def unknown_row_error(row: int) -> NotFound:
    """Return the refusal of a row that the log of the room does not have."""
    return NotFound(f"Unknown row {row}.", hint=next_call("{} lists rows.", "history show"))
