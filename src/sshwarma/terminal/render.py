"""Rendering of blocks to bytes, once per options: escaped, wrapped, coloured.

A line for a whole room is one Block. It is rendered once for each width and theme in the room and
cached in `Block.renderings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.picture import ImageMode, Picture, draw_picture_rows
from sshwarma.terminal.text import PLAIN_ONLY_STYLE, Block, Line, Span, Table, line
from sshwarma.terminal.theme import MONO, RESET_SEQUENCE, style_sequence
from sshwarma.terminal.width import cluster_width, cut_to_width, split_clusters, text_width

MIN_FOLD_COLUMNS: Final = 8
"""Minimum width of a folded text; with less room it gets a third of a row and its line wraps."""

_ASCII_MARKS: Final = str.maketrans(
    {
        "✓": "+", "✔": "+", "✗": "x", "✘": "x", "○": "o", "●": "*", "◉": "*", "·": "-", "•": "*",
        "→": "->", "←": "<-", "↑": "^", "↓": "v", "⇒": "=>", "↳": "->", "»": ">>", "«": "<<",
        "›": ">", "‹": "<", "▸": ">", "▶": ">", "█": "#", "▓": "#", "▒": "+", "░": ".", "▏": "|",
        "…": "...", "–": "-", "—": "--", "−": "-", "×": "x", "‘": "'", "’": "'", "“": '"',
        "”": '"', "─": "-", "━": "-", "│": "|", "┃": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+",
        "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+", "╭": "+", "╮": "+", "╰": "+",
        "╯": "+", "\u00a0": " ", "⚙": "*", "⠋": "|", "⠙": "/", "⠹": "-", "⠸": "\\", "⠼": "|",
        "⠴": "/", "⠦": "-", "⠧": "\\", "⠇": "|", "⠏": "/",
    }
)  # fmt: skip

_WORD: Final = re.compile(" +|[^ ]+")

_UNSPACED: Final = re.compile("[^\u0000-\u058f\u1e00-\u2bff]")
"""Characters of scripts that may lack spaces between words: not Latin, Greek, Cyrillic, marks."""

STACKED_INDENT_COLUMNS: Final = 2
"""Columns by which the last column of a table is indented below the columns before it."""


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """Display options of a terminal; equal options share renderings.

    Attributes:
        width: columns of a row.
        theme: a name in `theme.THEMES`.
        utf8: False translates marks to ASCII.
        plain: no SGR and no last column, for screen readers and dumb terminals.
        images: how the terminal can show pictures; see `image_mode`.
    """

    width: int = 80
    theme: str = "dark"
    utf8: bool = True
    plain: bool = False
    images: ImageMode = "off"

    @property
    def image_mode(self) -> ImageMode:
        """Image mode: words if output is plain, without colours or without UTF-8."""
        return "off" if self.plain or self.theme == MONO or not self.utf8 else self.images

    @property
    def columns(self) -> int:
        """Columns for text; one less if plain, as dumb terminals may wrap after the last."""
        return self.width - 1 if self.plain else self.width


def render_block(block: Block, look: DisplayOptions) -> bytes:
    """Render a block as rows ending in CR LF, at most `look.columns` wide."""
    memo = block.renderings
    rendering = memo.get(look)
    if rendering is None:
        rows = [row for item in block.lines for row in _render_item(item, look)]
        rendering = "".join(row + "\r\n" for row in rows).encode()
        memo[look] = rendering
    return rendering


def render_plain(block: Block, utf8: bool = True) -> str:
    """Render a block for a pipe: escaped, unwrapped, uncoloured, joined by newlines."""
    return "\n".join(render_plain_lines(block.lines, utf8))


def render_plain_lines(items: Iterable[Line | Table | Picture], utf8: bool = True) -> Iterator[str]:
    """Yield the lines of `render_plain`."""
    look = DisplayOptions(utf8=utf8, plain=True)
    for item in items:
        for part in _lay_out_item(item, look):
            yield "".join(escape_text(text, utf8) for _, text in part.spans).rstrip(" ")


def escape_text(text: str, utf8: bool = True) -> str:
    """Escape text; without `utf8`, translate known marks to ASCII and others to `?`."""
    text = escape_controls(text)
    if utf8 or text.isascii():
        return text
    return text.translate(_ASCII_MARKS).encode("ascii", "replace").decode()


def style_spans(spans: Sequence[Span], look: DisplayOptions) -> str:
    """Join escaped spans, with the colours of the display options."""
    if look.plain:
        return "".join(text for _, text in spans)
    theme = look.theme
    parts: list[str] = []
    for style, text in spans:
        start = style_sequence(theme, style)
        if start and text:
            parts += (start, text, RESET_SEQUENCE)
        else:
            parts.append(text)
    return "".join(parts)


def cut_spans_to_width(
    spans: Sequence[Span], look: DisplayOptions, columns: int
) -> tuple[list[Span], int]:
    """Escape spans and cut them to `columns`; return them and their width."""
    result: list[Span] = []
    width = 0
    for style, text in spans:
        text = escape_text(text, look.utf8)
        size = text_width(text)
        if width + size > columns:
            text = cut_to_width(text, columns - width, "…" if look.utf8 else "")
            result.append((style, text))
            return result, width + text_width(text)
        result.append((style, text))
        width += size
    return result, width


def _render_item(item: Line | Table | Picture, look: DisplayOptions) -> Iterator[str]:
    """Yield the rows of a line, a table or a picture."""
    if isinstance(item, Picture) and look.image_mode != "off":
        yield from draw_picture_rows(item, look.image_mode, look.columns)
    else:
        for part in _lay_out_item(item, look):
            yield from wrap_line(part, look)


def _lay_out_item(item: Line | Table | Picture, look: DisplayOptions) -> Iterator[Line]:
    """Yield an item as lines: a table laid out, a picture in words."""
    if isinstance(item, Table):
        yield from _lay_out_table(item, look)
    else:
        yield item if isinstance(item, Line) else line(("dim", item.plain()))


def wrap_line(line: Line, look: DisplayOptions) -> Iterator[str]:
    """Yield the rows of one logical line, coloured."""
    if line.last_column is not None and _is_stacked(line, look):
        for part in _stack_columns(line, line.last_column):
            yield from wrap_line(part, look)
        return
    spans = _escape_spans(line.spans, look)
    size = _spans_width(spans)
    if size > look.columns and line.fold is not None:
        style, text = spans[line.fold]
        room = look.columns - size + text_width(text)
        width = room if room >= MIN_FOLD_COLUMNS else look.columns // 3
        spans[line.fold] = (style, cut_to_width(text, width, "…" if look.utf8 else "..."))
        size = _spans_width(spans)
    if size <= look.columns:
        yield style_spans(spans, look)
        return
    most = look.columns // 2
    edge, indent = cut_spans_to_width(_escape_spans(line.edge, look), look, most)
    pad = style_spans(edge, look) + " " * max(0, min(line.hang, most) - indent)
    indent = max(indent, min(line.hang, most))
    words = _split_words(spans, look.columns - indent if line.breaks_between_spans else 0)
    rows = _row_bounds("".join(text for _, text in spans), words, look.columns, indent)
    for number, row in enumerate(_cut_spans(spans, rows)):
        yield (pad if number else "") + style_spans(row, look)


def _is_stacked(line: Line, look: DisplayOptions) -> bool:
    """Return whether the last column of a row of a table gets rows of its own.

    It does if a row of the table is too long, and the columns before take more than a third of the
    screen; or more than two thirds, if the last column can be cut.
    """
    head = max(line.hang, _spans_width(_escape_spans(line.spans[: line.last_column], look)))
    share = head if line.fold is None else head / 2
    widest = max(line.widest, _spans_width(_escape_spans(line.spans, look)))
    return widest > look.columns and share > look.columns / 3


def _stack_columns(line: Line, last_column: int) -> Iterator[Line]:
    """Yield a row of a table as two lines: the columns before the last, and the last."""
    spans = list(line.spans[:last_column])
    flat = "".join(text for _, text in spans)
    hang = len(flat) - len(flat.lstrip(" ")) + STACKED_INDENT_COLUMNS
    while spans and not spans[-1][1].strip(" "):
        spans.pop()
    if spans:
        spans[-1] = (spans[-1][0], spans[-1][1].rstrip(" "))
        yield Line(tuple(spans), hang, breaks_between_spans=True)
    last_spans = line.spans[last_column:]
    if last_spans:
        fold = None if line.fold is None else line.fold - last_column + 1
        yield Line((("", " " * hang), *last_spans), hang, fold=fold)


def _spans_width(spans: Sequence[Span]) -> int:
    return text_width("".join(text for _, text in spans))


def _escape_spans(spans: Sequence[Span], look: DisplayOptions) -> list[Span]:
    """Escape spans; drop PLAIN_ONLY_STYLE spans unless the output is plain."""
    utf8 = look.utf8
    return [
        (style, escape_text(text, utf8))
        for style, text in spans
        if look.plain or not style.startswith(PLAIN_ONLY_STYLE)
    ]


def _lay_out_table(table: Table, look: DisplayOptions) -> Iterator[Line]:
    """Lay out a table with columns side by side if they fit, else one cell per line.

    Plain output always has one cell per line, which a screen reader can follow.
    """
    rows = [[_escape_spans(cell, look) for cell in row] for row in table.rows]
    sizes = [[sum(text_width(text) for _, text in cell) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    edge = _escape_spans(table.edge, look)
    total_width = sum(text_width(text) for _, text in edge) + sum(widths) + 2 * (len(widths) - 1)
    if look.plain or total_width > look.columns:
        yield from table.listed()
        return
    for row, row_sizes in zip(rows, sizes, strict=True):
        spans = list(edge)
        last = len(row) - 1
        for at, cell in enumerate(row):
            gap = ("", " " * (widths[at] - row_sizes[at]))
            separator = ("", "  " if at < last else "")
            spans += [gap, *cell, separator] if table.right[at] else [*cell, gap, separator]
        while spans and not spans[-1][1].strip():
            spans.pop()
        yield Line(tuple(spans))


def _split_words(spans: Sequence[Span], whole: int) -> Iterator[str]:
    """Yield the words of the joined spans, and the spaces between them.

    A span of at most `whole` columns is one word, also if it has spaces.
    """
    if not whole:
        yield from _WORD.findall("".join(text for _, text in spans))
        return
    for _, text in spans:
        if text.strip(" ") and text_width(text) <= whole:
            yield text
        else:
            yield from _WORD.findall(text)


def _row_bounds(
    text: str, words: Iterable[str], columns: int, hang: int
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each row: first `columns` wide, then `columns - hang`.

    Rows break at spaces, which are dropped there. A word that fits in one row moves to the next row
    whole, if its script has spaces between words; other scripts break between any two clusters.
    """
    start = end = width = 0
    room = columns
    word_end = 0  # the end of the word
    for word in words:
        at, word_end = word_end, word_end + len(word)
        size = text_width(word)
        if width + size <= room:
            end, width = word_end, width + size
            continue
        if not word.strip(" "):
            # Drop the spaces at which the row breaks. Spaces at the start of the line are kept
            # and the row breaks after them.
            yield start, end
            start, width, room = word_end, 0, columns - hang
            end = start
            continue
        if size <= columns - hang and width and not _UNSPACED.search(word):
            yield start, _strip_end(text, start, end)
            start, width, room = at, size, columns - hang
            end = word_end
            continue
        for cluster in split_clusters(word):
            size = cluster_width(cluster)
            if width + size > room:
                yield start, at
                start, width, room = at, 0, columns - hang
            at += len(cluster)
            width += size
        end = at
    if start < end or not end:
        yield start, end


def _strip_end(text: str, start: int, end: int) -> int:
    """Return the end of text[start:end] without trailing spaces, if not all spaces."""
    content = text[start:end].rstrip(" ")
    return start + len(content) if content else end


def _cut_spans(spans: Sequence[Span], rows: Iterable[tuple[int, int]]) -> Iterator[list[Span]]:
    """Yield the spans of each row; rows are ordered ranges of the joined text."""
    at = number = 0  # the start of span `number` in the joined text
    for start, end in rows:
        row: list[Span] = []
        while number < len(spans):
            style, text = spans[number]
            low, high = max(start - at, 0), min(end - at, len(text))
            if low < high:
                row.append((style, text[low:high]))
            if at + len(text) > end:
                break  # the rest of the span belongs to the next row
            at += len(text)
            number += 1
        yield row
