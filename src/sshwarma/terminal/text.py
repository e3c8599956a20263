"""Text as everyone hands it around: styled spans in lines in blocks, with no width and no colour.

A view makes a Block; a terminal renders it for its width and theme; a pipe, a model and MCP
take `plain()`. Span texts are data: rendering escapes whatever control sequences they hold, so
nobody who builds a Block has to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Style: TypeAlias = str
"""A meaning, not a colour; one of STYLES. The theme says what it looks like."""

STYLES: Final = (
    "", "heading", "name", "self", "model", "room", "thing", "tool", "verb", "text", "emote",
    "private", "presence", "notice", "mention", "time", "dim", "ok", "warn", "error", "mark",
    "code", "link", "prompt", "status",
)  # fmt: skip

Span: TypeAlias = tuple[Style, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line. When it is wrapped, continuation rows are indented by `hang` columns."""

    spans: tuple[Span, ...] = ()
    hang: int = 0

    def plain(self) -> str:
        return "".join(text for _, text in self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some lines that belong together. Shared by everyone who sees them, so rendered once
    per width and theme: `renderings` is the renderer's memo and nobody else's."""

    lines: tuple[Line, ...] = ()
    renderings: dict[object, bytes] = field(default_factory=dict, repr=False)

    def plain(self) -> str:
        """The text without styles, lines joined by newlines. Not escaped: see `render.plain`."""
        return "\n".join(line.plain() for line in self.lines)


def line(*parts: str | Span, hang: int = 0) -> Line:
    """A line from plain strings and (style, text) pairs."""
    return Line(tuple(("", part) if isinstance(part, str) else part for part in parts), hang)


def block(*lines: Line | str) -> Block:
    return Block(tuple(line(item) if isinstance(item, str) else item for item in lines))


def headed(*head: str | Span, text: str, style: Style = "text", indent: int = 2) -> list[Line]:
    """A text of any number of lines behind a head: its first line beside it, the others below,
    indented by `indent` columns."""
    first, *more = text.split("\n")
    beside = line(*head, (style, first), hang=indent)
    return [beside, *(paragraphs("\n".join(more), style, indent=indent) if more else ())]


def paragraphs(text: str, style: Style = "text", *, indent: int = 0) -> Iterable[Line]:
    """Text of several lines as Lines, each indented by `indent` columns, also when wrapped."""
    pad = " " * indent
    for part in text.split("\n"):
        yield line(pad, (style, part), hang=indent)
