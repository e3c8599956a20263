"""Markdown in the results of tools: tables, below the head of a result."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.terminal.markdown import render_markdown
from sshwarma.terminal.text import Line, Table

_TABLE_HEAD: Final = re.compile(r"^\|.*\|[ \t]*\n\|[ \t:|-]*-[ \t:|-]*\|[ \t]*$", re.MULTILINE)


def has_table(text: str) -> bool:
    """Return whether a text has a table of Markdown."""
    return "|" in text and _TABLE_HEAD.search(text) is not None


def render_indented(indent: str, text: str) -> list[Line | Table]:
    """Render Markdown below a head, indented from its first line."""
    head, *others = render_markdown(("", indent), text=text)
    # A text that begins with a heading, a list or code begins below the head.
    return [head, *others] if isinstance(head, Line) and head.plain().strip() else others
