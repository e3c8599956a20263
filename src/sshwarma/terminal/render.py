"""Blocks to bytes: escaped, word-wrapped by display width, coloured; once per look.

A line that goes to a whole room is one Block, rendered once for each width and theme in the
room and kept in `Block.renderings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sshwarma.terminal.safe import safe
from sshwarma.terminal.text import Block, Line, Span
from sshwarma.terminal.theme import RESET, THEMES
from sshwarma.terminal.width import clip, cluster_width, clusters, width

RENDERINGS_MAX: Final = 16
"""Looks kept in one block; the oldest goes first."""

_ASCII: Final = str.maketrans(
    {
        "✓": "+", "✔": "+", "✗": "x", "✘": "x", "○": "o", "●": "*", "◉": "*", "·": "-", "•": "*",
        "→": "->", "←": "<-", "↑": "^", "↓": "v", "⇒": "=>", "↳": "->", "»": ">>", "«": "<<",
        "›": ">", "‹": "<", "▸": ">", "▶": ">", "█": "#", "▓": "#", "▒": "+", "░": ".", "▏": "|",
        "…": "...", "–": "-", "—": "--", "−": "-", "×": "x", "‘": "'", "’": "'", "“": '"',
        "”": '"', "─": "-", "━": "-", "│": "|", "┃": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+",
        "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+", "╭": "+", "╮": "+", "╰": "+",
        "╯": "+", "\u00a0": " ",
    }
)  # fmt: skip

_WORD: Final = re.compile(" +|[^ ]+")


@dataclass(frozen=True, slots=True)
class Look:
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


def render(block: Block, look: Look) -> bytes:
    """The block as rows ending in CR LF, none wider than `look.columns`."""
    memo = block.renderings
    done = memo.get(look)
    if done is None:
        rows = [row for line in block.lines for row in wrap(line, look)]
        done = "".join(row + "\r\n" for row in rows).encode()
        if len(memo) >= RENDERINGS_MAX:
            del memo[next(iter(memo))]
        memo[look] = done
    return done


def plain(block: Block, utf8: bool = True) -> str:
    """The block for a pipe: escaped, not wrapped, not coloured, lines joined by newlines."""
    return "\n".join(
        "".join(shown(text, utf8) for _, text in line.spans).rstrip() for line in block.lines
    )


def shown(text: str, utf8: bool = True) -> str:
    """Escaped text, in ASCII unless `utf8`: known marks are translated, the rest is `?`."""
    text = safe(text)
    if utf8 or text.isascii():
        return text
    return text.translate(_ASCII).encode("ascii", "replace").decode()


def styled(spans: Sequence[Span], look: Look) -> str:
    """Spans that are already `shown`, with the colours of the look."""
    if look.plain:
        return "".join(text for _, text in spans)
    starts = THEMES[look.theme]
    parts: list[str] = []
    for style, text in spans:
        start = starts.get(style)
        if start and text:
            parts += (start, text, RESET)
        else:
            parts.append(text)
    return "".join(parts)


def clipped(spans: Sequence[Span], look: Look, columns: int) -> tuple[list[Span], int]:
    """Spans escaped and cut to `columns`, and the columns they take."""
    kept: list[Span] = []
    used = 0
    for style, text in spans:
        text = shown(text, look.utf8)
        size = width(text)
        if used + size > columns:
            text = clip(text, columns - used, "…" if look.utf8 else "")
            kept.append((style, text))
            return kept, used + width(text)
        kept.append((style, text))
        used += size
    return kept, used


def wrap(line: Line, look: Look) -> Iterator[str]:
    """The rows of one logical line, coloured."""
    spans = [(style, shown(text, look.utf8)) for style, text in line.spans]
    flat = "".join(text for _, text in spans)
    if width(flat) <= look.columns:
        yield styled(spans, look)
        return
    pad = " " * max(0, min(line.hang, look.columns // 2))
    for number, (start, end) in enumerate(_rows(flat, look.columns, len(pad))):
        yield (pad if number else "") + styled(_slice(spans, start, end), look)


def _rows(text: str, columns: int, hang: int) -> Iterator[tuple[int, int]]:
    """Where each row starts and ends: first `columns` wide, then `columns - hang`.

    Breaks at spaces, which vanish there. A word is taken to the next row whole when it fits in
    one and is ASCII; other scripts break between any two clusters.
    """
    start = end = used = 0
    room = columns
    for match in _WORD.finditer(text):
        word = match[0]
        size = width(word)
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
            yield start, _strip(text, start, end)
            start, used, room = match.start(), size, columns - hang
            end = match.end()
            continue
        at = match.start()
        for cluster in clusters(word):
            size = cluster_width(cluster)
            if used + size > room:
                yield start, at
                start, used, room = at, 0, columns - hang
            at += len(cluster)
            used += size
        end = at
    if start < end or not end:
        yield start, end


def _strip(text: str, start: int, end: int) -> int:
    """The end of text[start:end] without trailing spaces, unless it is nothing but spaces."""
    stripped = text[start:end].rstrip(" ")
    return start + len(stripped) if stripped else end


def _slice(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans of the characters from `start` to `end` of the joined text."""
    kept: list[Span] = []
    at = 0
    for style, text in spans:
        if at >= end:
            break
        low, high = max(start - at, 0), min(end - at, len(text))
        if low < high:
            kept.append((style, text[low:high]))
        at += len(text)
    return kept
