"""The text model: styled spans in lines in blocks, without width and colour.

A view makes a Block; a terminal renders it for its width and theme; a pipe, a model and MCP
use `plain()`. Span texts are data: rendering escapes their control sequences, so code that builds
a Block need not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cachetools import LRUCache

from sshwarma.terminal.picture import Picture

Style: TypeAlias = str
"""A meaning, not a colour: one or several of STYLE_NAMES, separated by spaces. The theme defines
the look of each."""

PLAIN_ONLY_STYLE: Final = "bare"
"""The style of text that replaces styles in plain output: plain screens and pipes show it, other
output omits it."""

STYLE_NAMES: Final = (
    "", "heading", "name", "self", "model", "room", "thing", "tool", "verb", "text", "emote",
    "private", "presence", "notice", "mention", "time", "dim", "ok", "warn", "error", "mark",
    "code", "link", "prompt", "status", "strong", "emphasis",
    "code-keyword", "code-string", "code-number", "code-comment", "code-name", "code-type",
    "code-added", "code-removed", PLAIN_ONLY_STYLE,
)  # fmt: skip

Span: TypeAlias = tuple[Style, str]

_BOLD: Final = re.compile(r"\x1b\[1m([^\x1b\n]*)\x1b\[0m")
_COLUMN: Final = re.compile(r" +\S.*? {2,}(?=\S)")

_COMMENT: Final = re.compile(r" +(?:--|#) ")
"""The beginning of a comment in indented code; it begins each row of the comment."""

_CODE_HANG_COLUMNS: Final = 4
"""Columns by which the rest of an indented line without a second column is indented further."""


MAX_RENDERINGS: Final = 16
"""Renderings cached for one block."""


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line.

    Attributes:
        hang: columns by which continuation rows are indented when the line is wrapped.
        edge: spans that begin each continuation row, such as quote marks; part of `hang`.
        fold: index of the span that is cut before a too long line is wrapped.
        last_column: index of the span that begins the last column of a row of a table. If the row
            is too long and the columns before are wide, that column gets rows of its own.
        widest: columns of the longest row of the table, so that all rows are laid out alike.
        breaks_between_spans: whether rows break between spans only, unless a span is too wide.
    """

    spans: tuple[Span, ...] = ()
    hang: int = 0
    edge: tuple[Span, ...] = ()
    fold: int | None = None
    last_column: int | None = None
    widest: int = 0
    breaks_between_spans: bool = False

    def plain(self) -> str:
        """Return the text without styles, unescaped."""
        return "".join(text for _, text in self.spans)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; if plain or too wide, each cell is a `name: value` line.

    Attributes:
        rows: rows of cells; the first row has the column names.
        right: for each column, whether it is right-aligned.
        edge: spans that begin every row.
    """

    rows: tuple[tuple[tuple[Span, ...], ...], ...]
    right: tuple[bool, ...]
    edge: tuple[Span, ...] = ()

    def listed(self) -> list[Line]:
        """Return the table as `name: value` lines, with an empty line between rows."""
        names, *body = self.rows
        hang = sum(len(text) for _, text in self.edge) + 2
        between = Line(self.edge if any(text.strip() for _, text in self.edge) else ())
        lines: list[Line] = []
        for row in body:
            if lines:
                lines.append(between)
            for name, cell in zip(names, row, strict=True):
                head = (*name, ("", ": ")) if name else ()
                if cell:
                    lines.append(Line((*self.edge, *head, *cell), hang, self.edge))
        return lines or [Line((*self.edge, *name), hang, self.edge) for name in names if name]

    def plain(self) -> str:
        """Return the table as `name: value` lines, without styles, unescaped."""
        return "\n".join(line.plain() for line in self.listed())


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Lines that belong together, rendered once per width and theme for all viewers.

    Only the renderer uses `renderings`, its cache.

    Attributes:
        has_picture: whether one of the lines is a picture.
    """

    lines: tuple[Line | Table | Picture, ...] = ()
    renderings: LRUCache[object, bytes] = field(
        default_factory=lambda: LRUCache(MAX_RENDERINGS), repr=False
    )
    has_picture: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        is_in = any(isinstance(item, Picture) for item in self.lines)
        object.__setattr__(self, "has_picture", is_in)

    def plain(self) -> str:
        """Return the text without styles, unescaped (see `render.render_plain`)."""
        return "\n".join(line.plain() for line in self.lines)

    def without_pictures(self) -> Block:
        """Return the block with words in place of its pictures."""
        return Block(
            tuple(line(item.plain()) if isinstance(item, Picture) else item for item in self.lines)
        )


def line(*parts: str | Span, hang: int = 2) -> Line:
    """Make a line from plain strings and (style, text) pairs.

    The rest of a message that is too long for a row is indented, at every place alike.
    """
    return Line(tuple(("", part) if isinstance(part, str) else part for part in parts), hang)


def block(*lines: Line | Table | Picture | str) -> Block:
    """Make a block from lines, tables, pictures, and strings of one line each."""
    return Block(tuple(line(item) if isinstance(item, str) else item for item in lines))


def lines_with_head(
    *head: str | Span, text: str, style: Style = "text", indent: int = 2
) -> list[Line]:
    """Put a text after a head: its first line beside it, the others below, indented."""
    first_line, *other_lines = text.split("\n")
    head_line = line(*head, (style, first_line), hang=indent)
    return [
        head_line,
        *(text_lines("\n".join(other_lines), style, indent=indent) if other_lines else ()),
    ]


def split_text(text: str) -> Iterator[str]:
    """Yield the lines of a text, as `split` makes them all at once."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def split_bold(text: str, style: Style = "text") -> list[Span]:
    """Return one line of a result as spans, with what it marks as bold.

    Such signs of a terminal mark what a search has found; all others stay, and are escaped.
    """
    spans: list[Span] = []
    at = 0
    for match in _BOLD.finditer(text):
        spans += [(style, text[at : match.start()]), (f"{style} strong", match[1])]
        at = match.end()
    return [*spans, (style, text[at:])]


def remove_bold(text: str) -> str:
    """Return a text without the signs that make parts of it bold."""
    return _BOLD.sub(r"\1", text)


def text_lines(text: str, style: Style = "text", *, indent: int = 0) -> Iterable[Line]:
    """Yield lines of a text, each indented by `indent` columns, also when wrapped."""
    pad = " " * indent
    for part in split_text(text):
        yield line(pad, (style, part), hang=indent)


def reflowed(text: str, style: Style = "text", *, indent: int = 0) -> Iterable[Line]:
    """Yield a text with fixed line breaks as Lines that wrap at the screen width.

    The lines of a paragraph become one Line. An empty line, an indented line, a heading or an item
    of a list begins a new one. Indented lines with a second column are rows of a table; a line that
    is indented as far as the second column of the line before continues that column.
    """
    paragraph: list[str] = []
    table: list[str] = []
    for part in text.split("\n"):
        if table and not (part.strip() and part.startswith(" ")):
            yield from _indented_lines(table, style, indent)
            table = []
        own_line = not part.strip() or part.startswith((" ", "# ", "- "))
        if own_line and paragraph:
            yield from text_lines(" ".join(paragraph), style, indent=indent)
            paragraph = []
        if not own_line or part.startswith("- "):
            paragraph.append(part.strip())
        elif not part.strip():
            yield line()
        elif not part.startswith(" "):
            yield line(" " * indent, (style, part), hang=indent)
        elif table and _indentation(part) == _second_column(table[-1]):
            table[-1] += f" {part.strip()}"
        else:
            table.append(part)
    yield from _indented_lines(table, style, indent)
    if paragraph:
        yield from text_lines(" ".join(paragraph), style, indent=indent)


def _indented_lines(parts: list[str], style: Style, indent: int) -> Iterable[Line]:
    """Yield indented lines; those with the same second column are rows of one table."""
    columns = [_second_column(part) for part in parts]
    widest: dict[int | None, int] = {}
    for part, column in zip(parts, columns, strict=True):
        widest[column] = max(widest.get(column, 0), indent + len(part))
    pad = " " * indent
    for part, column in zip(parts, columns, strict=True):
        if column is None:
            hang = indent + _indentation(part) + _CODE_HANG_COLUMNS
            comment = _COMMENT.match(part)
            edge = (("", pad), (style, f"{comment[0]}   ")) if comment is not None else ()
            hang = max(hang, sum(len(text) for _, text in edge))
            yield Line((("", pad), (style, part)), hang, edge)
        else:
            head, text = part[:column], part[column:]
            yield Line(
                (("", pad), (style, head), (style, text)),
                hang=indent + column,
                last_column=2,
                widest=widest[column],
            )


def _indentation(part: str) -> int:
    return len(part) - len(part.lstrip())


def _second_column(part: str) -> int | None:
    """Return where the second column of an indented line begins; None without one."""
    column = _COLUMN.match(part)
    return column.end() if column is not None else None
