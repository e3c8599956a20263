"""Blocks to bytes: escaped, word-wrapped by display width, coloured; once per look.

A line that goes to a whole room is one Block, rendered once for each width and theme in the
room and kept in `Block.renderings`.
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
"""Looks kept in one block; the oldest goes first."""

MIN_FOLD_COLUMNS: Final = 8
"""Columns a folded text keeps at least; where there is less room, it gets a third of a row, and its
line is wrapped."""

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
    """How one person's terminal shows text; equal looks share renderings.

    width: columns of a row. theme: a name in `theme.THEMES`. utf8: false translates marks to
    ASCII. plain: no SGR and no last column, for screen readers and dumb terminals.
    """

    width: int = 80
    theme: str = "dark"
    utf8: bool = True
    plain: bool = False

    @property
    def columns(self) -> int:
        """Columns text may fill. A dumb terminal may wrap at once after its last column."""
        return self.width - 1 if self.plain else self.width


def render_block(block: Block, look: DisplayOptions) -> bytes:
    """The block as rows ending in CR LF, none wider than `look.columns`."""
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
    """The block for a pipe: escaped, not wrapped, not coloured, lines joined by newlines."""
    return "\n".join(
        "".join(escape_text(text, utf8) for _, text in line.spans).rstrip(" ")
        for line in lay_out_block(block, DisplayOptions(utf8=utf8, plain=True))
    )


def escape_text(text: str, utf8: bool = True) -> str:
    """Escaped text, in ASCII unless `utf8`: known marks are translated, the rest is `?`."""
    text = escape_controls(text)
    if utf8 or text.isascii():
        return text
    return text.translate(_ASCII_MARKS).encode("ascii", "replace").decode()


def style_spans(spans: Sequence[Span], look: DisplayOptions) -> str:
    """Spans that are already `escape_text`, with the colours of the look."""
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
    """Spans escaped and cut to `columns`, and the columns they take."""
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
    """The lines of a block, its tables as they fit."""
    for item in block.lines:
        if isinstance(item, Table):
            yield from _lay_out_table(item, look)
        else:
            yield item


def wrap_line(line: Line, look: DisplayOptions) -> Iterator[str]:
    """The rows of one logical line, coloured."""
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
    """Spans escaped, without those that only stand in for styles if there are styles."""
    utf8 = look.utf8
    return [
        (style, escape_text(text, utf8))
        for style, text in spans
        if look.plain or not style.startswith(PLAIN_ONLY_STYLE)
    ]


def _lay_out_table(table: Table, look: DisplayOptions) -> Iterator[Line]:
    """A table with its columns side by side if they fit, else a cell a line. Where nothing is
    drawn, as for a screen reader, a cell a line is what can be followed."""
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
    """Where each row starts and ends: first `columns` wide, then `columns - hang`.

    Breaks at spaces, which vanish there. A word is taken to the next row whole when it fits in
    one and is ASCII; other scripts break between any two clusters.
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
            # The gap at which the row is broken: nothing of it is shown, unless it begins the
            # line, where the row is broken after it.
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
    """The end of text[start:end] without trailing spaces, unless it is nothing but spaces."""
    stripped = text[start:end].rstrip(" ")
    return start + len(stripped) if stripped else end


def _cut_spans(spans: Sequence[Span], rows: Iterable[tuple[int, int]]) -> Iterator[list[Span]]:
    """The spans of each row: rows say where in the joined text they start and end, in order."""
    at = number = 0  # where the span of that number begins
    for start, end in rows:
        kept: list[Span] = []
        while number < len(spans):
            style, text = spans[number]
            low, high = max(start - at, 0), min(end - at, len(text))
            if low < high:
                kept.append((style, text[low:high]))
            if at + len(text) > end:
                break  # the next row may have some of it
            at += len(text)
            number += 1
        yield kept
