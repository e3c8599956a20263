"""Refusals as people see them, at every door."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.verbs.views import split_usage
from sshwarma.world.errors import WorldError
from sshwarma.world.reader import PERSON

_WORD: Final = re.compile(" +|[^ ]+")


def draw_refusal(refused: WorldError, typed: str = "") -> Block:
    """Draw a refusal, with a mark under the typed word that it is about, if any."""
    lines: list[Line] = []
    if refused.span is not None and typed and "\n" not in typed and refused.span[1] > 0:
        start, end = refused.span
        lines.append(line("  ", typed))
        lines.append(line("  ", " " * start, ("error", "^" * max(1, end - start))))
    lines.append(_refusal_line(refused))
    return block(*lines)


def _refusal_line(refused: WorldError) -> Line:
    """Draw the message and the hint; a usage in the hint breaks between options."""
    spans: list[Span] = [("error", part) for part in _WORD.findall(refused.message)]
    hint = refused.hint_for(PERSON)
    if hint:
        spans += [("dim", part) for _, part in split_usage(f" {hint}")]
    return Line(tuple(spans), hang=2, breaks_between_spans=True)
