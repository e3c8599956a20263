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
"""A meaning, not a colour: one of STYLES, or several with spaces between. The theme says what each
looks like."""

PLAIN_ONLY_STYLE: Final = "bare"
"""The style of what stands in for styles where there are none: a plain look and a pipe show it,
other looks leave it out."""

STYLE_NAMES: Final = (
    "", "heading", "name", "self", "model", "room", "thing", "tool", "verb", "text", "emote",
    "private", "presence", "notice", "mention", "time", "dim", "ok", "warn", "error", "mark",
    "code", "link", "prompt", "status", "strong", "emphasis",
    "code-keyword", "code-string", "code-number", "code-comment", "code-name", "code-type",
    "code-added", "code-removed", PLAIN_ONLY_STYLE,
)  # fmt: skip

Span: TypeAlias = tuple[Style, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line. When it is wrapped, continuation rows are indented by `hang` columns, of
    which `edge` fills the first: the mark of a quotation goes on beside all of it. A line that
    is too long has its span of number `fold` cut before it is wrapped."""

    spans: tuple[Span, ...] = ()
    hang: int = 0
    edge: tuple[Span, ...] = ()
    fold: int | None = None

    def plain(self) -> str:
        return "".join(text for _, text in self.spans)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, the first row the names of the columns. Where the columns do not fit side by
    side, or nothing is drawn, each cell is a line of its own behind its name.

    right: whether each column is aligned to the right. edge: what every row begins with.
    """

    rows: tuple[tuple[tuple[Span, ...], ...], ...]
    right: tuple[bool, ...]
    edge: tuple[Span, ...] = ()

    def listed(self) -> list[Line]:
        """The table as lines: `name: value`, with an empty line between rows."""
        names, *values = self.rows
        hang = sum(len(text) for _, text in self.edge) + 2
        between = Line(self.edge if any(text.strip() for _, text in self.edge) else ())
        lines: list[Line] = []
        for row in values:
            if lines:
                lines.append(between)
            for name, cell in zip(names, row, strict=True):
                head = (*name, ("", ": ")) if name else ()
                if cell:
                    lines.append(Line((*self.edge, *head, *cell), hang, self.edge))
        return lines or [Line((*self.edge, *name), hang, self.edge) for name in names if name]

    def plain(self) -> str:
        return "\n".join(line.plain() for line in self.listed())


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some lines that belong together. Shared by everyone who sees them, so rendered once
    per width and theme: `renderings` is the renderer's memo and nobody else's."""

    lines: tuple[Line | Table, ...] = ()
    renderings: dict[object, bytes] = field(default_factory=dict, repr=False)

    def plain(self) -> str:
        """The text without styles, lines joined by newlines. Not escaped: see `render.plain`."""
        return "\n".join(line.plain() for line in self.lines)


def line(*parts: str | Span, hang: int = 0) -> Line:
    """A line from plain strings and (style, text) pairs."""
    return Line(tuple(("", part) if isinstance(part, str) else part for part in parts), hang)


def block(*lines: Line | Table | str) -> Block:
    return Block(tuple(line(item) if isinstance(item, str) else item for item in lines))


def lines_with_head(
    *head: str | Span, text: str, style: Style = "text", indent: int = 2
) -> list[Line]:
    """A text of any number of lines behind a head: its first line beside it, the others below,
    indented by `indent` columns."""
    first, *more = text.split("\n")
    beside = line(*head, (style, first), hang=indent)
    return [beside, *(text_lines("\n".join(more), style, indent=indent) if more else ())]


def text_lines(text: str, style: Style = "text", *, indent: int = 0) -> Iterable[Line]:
    """Text of several lines as Lines, each indented by `indent` columns, also when wrapped."""
    pad = " " * indent
    for part in text.split("\n"):
        yield line(pad, (style, part), hang=indent)


def reflowed(text: str, style: Style = "text", *, indent: int = 0) -> Iterable[Line]:
    """Text that was broken into lines by its author, each paragraph as one Line, so that it wraps
    at the width of the screen. An empty line, an indented line, a heading or an item of a list
    begins a new one; an indented line keeps its own breaks."""
    paragraph: list[str] = []
    for part in [*text.split("\n"), None]:
        own_line = part is None or not part.strip() or part.startswith((" ", "# ", "- "))
        if own_line and paragraph:
            yield from text_lines(" ".join(paragraph), style, indent=indent)
            paragraph = []
        if part is None:
            return
        if not own_line or part.startswith("- "):
            paragraph.append(part.strip())
        elif part.strip():
            hang = indent + len(part) - len(part.lstrip())
            yield line(" " * indent, (style, part), hang=hang)
        else:
            yield line()
