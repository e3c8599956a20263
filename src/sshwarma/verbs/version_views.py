"""Versions of texts and values, and their differences, as verbs show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sshwarma.terminal.highlight import draw_code_lines
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.file_views import format_size
from sshwarma.verbs.views import draw_columns


@dataclass(frozen=True, slots=True)
class ValueVersionItem:
    """A value that a key, or a text that a thing, had or has.

    Attributes:
        version: its number; the first one is 1.
        size: bytes.
        by: who set it.
        at: when, in ISO 8601.
        ended: "replaced" or "deleted", with who did it; "" for the present value.
    """

    version: int
    size: int
    by: str
    at: str
    ended: str


def draw_versions(heading: str, versions: Sequence[ValueVersionItem]) -> list[Line]:
    """Draw versions below a heading: number, size, author, time."""
    return [
        line(("heading", heading)),
        *draw_columns(
            (
                ("mark", str(item.version)),
                format_size(item.size),
                item.by,
                ("dim", item.at[:16].replace("T", " ")),
                ("ok", "now") if not item.ended else ("dim", item.ended),
            )
            for item in versions
        ),
    ]


def draw_difference(name: str, version: int, diff: str, note: str) -> Block:
    """Draw the difference of a version to the present one, a unified diff, in colour."""
    lines: list[Line] = [line(("heading", f"{name}: version {version} → now"))]
    if diff:
        lines += [line("  ", *spans) for spans in draw_code_lines(diff, "diff")]
    elif not note:
        lines.append(line("  Nothing differs."))
    if note:
        lines.append(line("  ", ("dim", note)))
    return block(*lines)
