"""Ends of lines and indentation of a text: counted, and made alike."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, Literal

from sshwarma.common.lines import iterate_text_lines

LineEnd = Literal["lf", "crlf", "cr"]
IndentStyle = Literal["tabs", "spaces"]

ENDS: Final[dict[LineEnd, str]] = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
_END_NAMES: Final = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}
_ANY_END: Final = re.compile(r"\r\n|\n|\r")
_INDENT: Final = re.compile(r"[ \t]*")

NAMED_WIDTHS: Final = 3
"""Widths of indentation that a report names, the most frequent ones."""


def describe_line_ends(text: str) -> str:
    """Return how many line ends of each kind a text has."""
    counts: Counter[str] = Counter()
    for _, end, after in iterate_text_lines(text):
        if after > end:
            counts[text[end:after]] += 1
    if not counts:
        return "It has no line ends."
    kinds = [f"{name} {counts[end]}" for end, name in _END_NAMES.items() if counts[end]]
    how = "all alike" if len(kinds) == 1 else "mixed"
    return f"Line ends: {counts.total()} ({how}): {', '.join(kinds)}."


def convert_line_ends(text: str, to: LineEnd) -> str:
    """Return a text with all its line ends of one kind."""
    return _ANY_END.sub(lambda _: ENDS[to], text)


def describe_indentation(text: str) -> str:
    """Return how the lines of a text are indented: by tabs, by spaces, how far."""
    tabs = spaces = mixed = 0
    widths: Counter[int] = Counter()
    for start, end, _ in iterate_text_lines(text):
        match = _INDENT.match(text, start, end)
        indent = match[0] if match else ""
        if not indent or start + len(indent) == end:
            continue
        if indent.isspace() and " " in indent and "\t" in indent:
            mixed += 1
        elif "\t" in indent:
            tabs += 1
        else:
            spaces += 1
            widths[len(indent)] += 1
    if not tabs + spaces + mixed:
        return "No line is indented."
    kinds = [
        f"{count} by {how}"
        for count, how in ((tabs, "tabs"), (spaces, "spaces"), (mixed, "both in one line"))
        if count
    ]
    named = ", ".join(
        f"{width} ({count} lines)" for width, count in widths.most_common(NAMED_WIDTHS)
    )
    style = "tabs" if not spaces + mixed else "spaces" if not tabs + mixed else "mixed"
    text = f"Indentation: {style}. Lines: {', '.join(kinds)}."
    return f"{text} Most frequent widths in spaces: {named}." if named else text


def convert_indentation(text: str, to: IndentStyle, spaces_per_tab: int) -> str:
    """Return a text whose lines are indented by tabs or by spaces.

    Spaces that are no whole tab stay behind the tabs.
    """
    parts: list[str] = []
    for start, _, after in iterate_text_lines(text):
        match = _INDENT.match(text, start, after)
        indent = match[0] if match else ""
        columns = _count_columns(indent, spaces_per_tab)
        if to == "tabs":
            made = "\t" * (columns // spaces_per_tab) + " " * (columns % spaces_per_tab)
        else:
            made = " " * columns
        parts += [made, text[start + len(indent) : after]]
    return "".join(parts)


def _count_columns(indent: str, spaces_per_tab: int) -> int:
    columns = 0
    for sign in indent:
        columns += spaces_per_tab - columns % spaces_per_tab if sign == "\t" else 1
    return columns
