"""Rendering of blocks to bytes: escaped, word-wrapped, coloured; once per display options.

A line for a whole room is one Block. It is rendered once for each width and theme in the room and
cached in `Block.renderings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.text import PLAIN_ONLY_STYLE, Block, Line, Span, Table
from sshwarma.terminal.theme import RESET_SEQUENCE, style_sequence
from sshwarma.terminal.width import clip_text, cluster_width, split_clusters, text_width

MAX_RENDERINGS: Final = 16
"""Renderings cached per block; the oldest is dropped first."""

MIN_FOLD_COLUMNS: Final = 8
"""Smallest width of a folded text; with less room it gets a third of a row and its line wraps."""

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


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """Display options of a terminal; equal options share renderings.

    Attributes:
        width: columns of a row.
        theme: a name in `theme.THEMES`.
        utf8: False translates marks to ASCII.
        plain: no SGR and no last column, for screen readers and dumb terminals.
    """

    width: int = 80
    theme: str = "dark"
    utf8: bool = True
    plain: bool = False

    @property
    def columns(self) -> int:
        """Columns for text; one less if plain: dumb terminals may wrap after the last column."""
        return self.width - 1 if self.plain else self.width


def render_block(block: Block, look: DisplayOptions) -> bytes:
    """Render a block as rows ending in CR LF, at most `look.columns` wide."""
    memo = block.renderings
    done = memo.get(look)
    if done is None:
        rows = [row for line in lay_out_block(block, look) for row in wrap_line(line, look)]
        done = "".join(row + "\r\n" for row in rows).encode()
        if len(memo) >= MAX_RENDERINGS:
            del memo[next(iter(memo))]
        memo[look] = done
    return done


def render_plain(block: Block, utf8: bool = True) -> str:
    """Render a block for a pipe: escaped, unwrapped, uncoloured, joined by newlines."""
    return "\n".join(
        "".join(escape_text(text, utf8) for _, text in line.spans).rstrip(" ")
        for line in lay_out_block(block, DisplayOptions(utf8=utf8, plain=True))
    )


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


def clip_spans(spans: Sequence[Span], look: DisplayOptions, columns: int) -> tuple[list[Span], int]:
    """Escape spans and cut them to `columns`; return them and their width."""
    kept: list[Span] = []
    used = 0
    for style, text in spans:
        text = escape_text(text, look.utf8)
        size = text_width(text)
        if used + size > columns:
            text = clip_text(text, columns - used, "…" if look.utf8 else "")
            kept.append((style, text))
            return kept, used + text_width(text)
        kept.append((style, text))
        used += size
    return kept, used


def lay_out_block(block: Block, look: DisplayOptions) -> Iterator[Line]:
    """Yield the lines of a block, with its tables laid out."""
    for item in block.lines:
        if isinstance(item, Table):
            yield from _lay_out_table(item, look)
        else:
            yield item


def wrap_line(line: Line, look: DisplayOptions) -> Iterator[str]:
    """Yield the rows of one logical line, coloured."""
    spans = _escape_spans(line.spans, look)
    flat = "".join(text for _, text in spans)
    size = text_width(flat)
    if size > look.columns and line.fold is not None:
        style, text = spans[line.fold]
        room = look.columns - size + text_width(text)
        kept = room if room >= MIN_FOLD_COLUMNS else look.columns // 3
        spans[line.fold] = (style, clip_text(text, kept, "…" if look.utf8 else "..."))
        flat = "".join(text for _, text in spans)
        size = text_width(flat)
    if size <= look.columns:
        yield style_spans(spans, look)
        return
    most = look.columns // 2
    edge, used = clip_spans(_escape_spans(line.edge, look), look, most)
    pad = style_spans(edge, look) + " " * max(0, min(line.hang, most) - used)
    used = max(used, min(line.hang, most))
    rows = _row_bounds(flat, look.columns, used)
    for number, row in enumerate(_cut_spans(spans, rows)):
        yield (pad if number else "") + style_spans(row, look)


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
    whole = sum(text_width(text) for _, text in edge) + sum(widths) + 2 * (len(widths) - 1)
    if look.plain or whole > look.columns:
        yield from table.listed()
        return
    for row, taken in zip(rows, sizes, strict=True):
        spans = list(edge)
        last = len(row) - 1
        for at, cell in enumerate(row):
            gap = ("", " " * (widths[at] - taken[at]))
            after = ("", "  " if at < last else "")
            spans += [gap, *cell, after] if table.right[at] else [*cell, gap, after]
        while spans and not spans[-1][1].strip():
            spans.pop()
        yield Line(tuple(spans))


def _row_bounds(text: str, columns: int, hang: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each row: first `columns` wide, then `columns - hang`.

    Rows break at spaces, which are dropped there. An ASCII word that fits in one row moves to the
    next row whole; other scripts break between any two clusters.
    """
    start = end = used = 0
    room = columns
    for match in _WORD.finditer(text):
        word = match[0]
        size = text_width(word)
        if used + size <= room:
            end, used = match.end(), used + size
            continue
        if word[0] == " ":
            # Drop the spaces at which the row breaks. Spaces at the start of the line are kept
            # and the row breaks after them.
            yield start, end
            start, used, room = match.end(), 0, columns - hang
            end = start
            continue
        if size <= columns - hang and word.isascii() and used:
            yield start, _strip_end(text, start, end)
            start, used, room = match.start(), size, columns - hang
            end = match.end()
            continue
        at = match.start()
        for cluster in split_clusters(word):
            size = cluster_width(cluster)
            if used + size > room:
                yield start, at
                start, used, room = at, 0, columns - hang
            at += len(cluster)
            used += size
        end = at
    if start < end or not end:
        yield start, end


def _strip_end(text: str, start: int, end: int) -> int:
    """Return the end of text[start:end] without trailing spaces, unless it is all spaces."""
    stripped = text[start:end].rstrip(" ")
    return start + len(stripped) if stripped else end


def _cut_spans(spans: Sequence[Span], rows: Iterable[tuple[int, int]]) -> Iterator[list[Span]]:
    """Yield the spans of each row; rows are ordered ranges of the joined text."""
    at = number = 0  # the start of span `number` in the joined text
    for start, end in rows:
        kept: list[Span] = []
        while number < len(spans):
            style, text = spans[number]
            low, high = max(start - at, 0), min(end - at, len(text))
            if low < high:
                kept.append((style, text[low:high]))
            if at + len(text) > end:
                break  # the rest of the span belongs to the next row
            at += len(text)
            number += 1
        yield kept
