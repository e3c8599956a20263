"""Frames: the bytes that make a terminal show the view.

The upper part is committed scrollback, which belongs to the terminal and is never changed. Below
it is one region: the live area, the prompt with the input, the completion menu, the status. To
print, the region is erased, the lines are written and the region is drawn again. Both byte strings
are cached, so a line above somebody's prompt costs a concatenation.

Widths may be wrong: a terminal can draw an emoji wider than we compute. While a frame is drawn,
automatic wrapping is off, rows are counted from the region's top and columns from the left edge, so
a wrong width spoils one row only. Each frame ends with wrapping on, because a client that dies
could not restore it.

A resize draws the region again and nothing else. Terminals keep, wrap and scroll the rows above by
themselves; a program that prints them again leaves a copy in the scrollback at every change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from sshwarma.common.limits import (
    MAX_TERMINAL_COLUMNS,
    MAX_TERMINAL_ROWS,
    MIN_TERMINAL_COLUMNS,
    MIN_TERMINAL_ROWS,
)
from sshwarma.terminal.completion import MAX_MENU_ROWS, CandidateMenu
from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.layout import lay_out_input
from sshwarma.terminal.picture import DELETE_KITTY_IMAGES
from sshwarma.terminal.render import DisplayOptions, cut_spans_to_width, render_block, style_spans
from sshwarma.terminal.text import Block, Line, Span
from sshwarma.terminal.width import cluster_start as previous
from sshwarma.terminal.width import text_width

DEFAULT_COLUMNS: Final = 80
DEFAULT_ROWS: Final = 24

_WRAP_OFF: Final = b"\x1b[?7l"
_WRAP_ON: Final = b"\x1b[?7h"
_ERASE_BELOW: Final = b"\x1b[J"  # from the cursor to the end of the screen
_CURSOR_HOME: Final = b"\x1b[H"
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")

MIN_INPUT_COLUMNS: Final = 10
"""Columns left for the input beside the longest prompt."""


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """A block that may still change, and its progress line, cut to the width."""

    block: Block
    progress: Line | None = None


@dataclass(slots=True)
class ScreenView:
    """The contents of the region. The terminal changes it and then requests a frame."""

    prompt: Sequence[Span] = ()
    text: str = ""
    cursor: int = 0
    live: dict[str, LiveBlock] = field(default_factory=dict)
    menu: CandidateMenu | None = None
    status: Line | None = None


def clamp_size(columns: int, rows: int) -> tuple[int, int]:
    """Clamp a size to 20..500 x 5..200; an unknown size (zero) becomes 80 x 24."""
    return (
        min(max(columns, MIN_TERMINAL_COLUMNS), MAX_TERMINAL_COLUMNS)
        if columns > 0
        else DEFAULT_COLUMNS,
        min(max(rows, MIN_TERMINAL_ROWS), MAX_TERMINAL_ROWS) if rows > 0 else DEFAULT_ROWS,
    )


class Screen:
    """The state of one terminal's screen, and the bytes that change it.

    Attributes:
        region_rows: rows of the region that was drawn last.
        rows_on_screen: printed rows above it that are on the screen in every terminal. More may
            be: where the region was at the start, or after a resize, only the terminal knows.
    """

    __slots__ = (
        "_appends", "_certain", "_column", "_erase", "_region", "_rows_above", "look",
        "region_rows", "rows", "rows_on_screen",
    )  # fmt: skip

    start: Final = b"\x1b[?2004h"  # bracketed paste on
    stop: Final = b"\x1b[0m\x1b[?2004l\x1b[?25h\x1b[?7h"

    def __init__(self, look: DisplayOptions, rows: int) -> None:
        self.look = look
        self.rows = rows
        self.region_rows = 1
        self.rows_on_screen = 0
        self._region: bytes | None = None
        self._erase = b"\r" + _ERASE_BELOW + _WRAP_OFF
        self._rows_above: list[bytes | str] = []  # the drawn region's rows above the cursor
        self._column = 0
        self._appends = False  # whether the cursor is at the end of the input's last row
        self._certain = True  # whether that row is ASCII, whose width is the same everywhere

    def mark_stale(self) -> None:
        """Drop the cached region, because the view has changed."""
        self._region = None

    def frame(self, view: ScreenView, committed: bytes = b"") -> bytes:
        """Print `committed` rows above the region, and draw the region."""
        erase = self._erase
        region = self._region
        if region is None:
            region = self._region = self._compose(view)
        self._count_rows(self.rows_on_screen + committed.count(b"\n"))
        return erase + committed + region

    def repaint(self, view: ScreenView, recent: Sequence[Block]) -> bytes:
        """Draw the whole screen: tail of the scrollback at this width, then the region."""
        region = self._region = self._compose(view)
        room = self.rows - region.count(b"\n") - 1
        rows: list[bytes] = []
        for block in reversed(recent):
            if len(rows) >= room:
                break
            rows[:0] = render_block(block, self.look).splitlines(keepends=True)[-room:]
        # Neither ESC[2J nor ESC[J from the corner: tmux and others push the screen that these erase
        # into their history. So it is erased from the second column, after a space in the first.
        self._count_rows(len(rows))
        erase = _CURSOR_HOME + b" " + _ERASE_BELOW + b"\r" + _WRAP_OFF
        if self.look.image_mode == "kitty":
            erase += DELETE_KITTY_IMAGES
        return b"".join((erase, *rows[-room:], region))

    def resize(self, columns: int, rows: int) -> None:
        """Set the size; the next frame erases the region where the terminal has moved it.

        Most terminals wrap the rows that have become too wide. In one that cuts them instead
        (xterm, GNU screen), a region of several wide rows is taken for higher than it is, and the
        last rows above it are erased too.

        Args:
            columns: the terminal's real width, which may be below the least that is drawn.
            rows: the height to draw, within the limits.
        """
        self.rows = rows
        self._region = None
        # At the end of a full row the cursor stays beside the last character.
        column = max(0, self._column - 1) if self._appends else self._column
        up = column // columns
        for row in self._rows_above:
            text = _STYLE.sub("", row if isinstance(row, str) else row.decode())
            up += max(1, math.ceil(text_width(text) / columns))
        self._set_erase(up)

    def echo_typed(self, text: str, before: str) -> bytes | None:
        """Return the echo of `text` typed at the end of the input, after `before`.

        None if only a frame can show it: the row is full, or the text joins with or changes the
        text before it.
        """
        if not self._appends:
            return None
        if text.isascii():
            size = len(text)
        else:
            if not self.look.utf8:
                return None
            tail = before[previous(before, len(before)) :]  # the cluster that text may join
            size = text_width(tail + text) - text_width(tail)
            if size < 0 or escape_controls(tail + text) != tail + text:
                return None
        if self._column + size >= self.look.width:
            return None
        self._column += size
        self._region = None
        self._certain = self._certain and text.isascii()
        return text.encode() if self._certain else _WRAP_OFF + text.encode() + _WRAP_ON

    def end_line(self) -> bytes:
        """Return no bytes: a submitted line is printed to the scrollback like any other."""
        return b""

    def leave(self) -> bytes:
        """Erase the region and leave the cursor at the start of an empty row."""
        erase, self._erase = self._erase, b"\r" + _ERASE_BELOW + _WRAP_OFF
        self._region = None
        self._rows_above, self._appends = [], False
        return erase + _WRAP_ON

    def _compose(self, view: ScreenView) -> bytes:
        """Compose the region's bytes, drawn downwards from its top row at column 0."""
        look, columns = self.look, self.look.width - 1
        free_rows = self.rows - 1
        bottom_rows: list[str] = []
        if view.status is not None:
            free_rows -= 1
            bottom_rows.append(_render_status(view.status, look, columns))
        if view.menu is not None:
            lines = view.menu.lines(min(MAX_MENU_ROWS, free_rows - 1))
            free_rows -= len(lines)
            bottom_rows[:0] = [
                style_spans(cut_spans_to_width(line.spans, look, columns)[0], look)
                for line in lines
            ]
        prompt, prompt_width = _render_prompt(tuple(view.prompt), look, columns - MIN_INPUT_COLUMNS)
        layout = lay_out_input(view.text, view.cursor, columns, prompt_width, look.utf8)
        rows, row, top = layout.window(max(1, free_rows))
        free_rows -= len(rows)
        if top == 0:
            rows = [prompt + rows[0], *rows[1:]]
        live = self._live(view, min(free_rows, self.rows // 2))

        self._column = layout.column
        self._appends = view.menu is None and view.cursor == len(view.text) and row == len(rows) - 1
        self._certain = rows[row].isascii()
        up = len(rows) - 1 - row + len(bottom_rows)
        self.region_rows = len(live) + len(rows) + len(bottom_rows)
        self._rows_above = [*live, *rows[:row]]
        self._set_erase(len(self._rows_above))
        output = (
            b"".join(line + b"\r\n" for line in live) + "\r\n".join(rows + bottom_rows).encode()
        )
        cursor_up = f"\x1b[{up}A" if up else ""
        right = f"\r\x1b[{layout.column}C" if layout.column else "\r"
        return output + (cursor_up + right).encode() + _WRAP_ON

    def _count_rows(self, printed: int) -> None:
        """Count the printed rows on the screen: the region below scrolls others away."""
        self.rows_on_screen = max(0, min(printed, self.rows - self.region_rows))

    def _set_erase(self, up: int) -> None:
        """Set the bytes that erase the region, whose top is `up` rows above the cursor."""
        self._erase = (f"\r\x1b[{up}A" if up else "\r").encode() + _ERASE_BELOW + _WRAP_OFF

    def _live(self, view: ScreenView, height: int) -> list[bytes]:
        """Draw the last rows of all live blocks in at most `height` rows, divided fairly."""
        if height <= 0 or not view.live:
            return []
        blocks = [self._live_rows(live) for live in list(view.live.values())[-height:]]
        return [
            row
            for rows, share in zip(blocks, divide_rows(list(map(len, blocks)), height), strict=True)
            for row in rows[len(rows) - share :]
        ]

    def _live_rows(self, live: LiveBlock) -> list[bytes]:
        # A rendering holds no bare CR or LF: text is escaped.
        rows = render_block(live.block, self.look).split(b"\r\n")[:-1]
        if live.progress is not None:
            rows.append(_render_progress(live.progress, self.look, self.look.width - 1))
        return rows


def divide_rows(needs: Sequence[int], height: int) -> list[int]:
    """Divide `height` rows fairly, giving none more than it needs.

    If the rows do not divide evenly, later ones get one row more.
    """
    shares = [0] * len(needs)
    queue = sorted(range(len(needs)), key=lambda at: (needs[at], at))
    while queue:
        at, *rest = queue
        shares[at] = min(needs[at], height // len(queue))
        height -= shares[at]
        queue = rest
    return shares


# A room's status, prompt and progress are equal on all terminals of the same width, so they are
# cached: with 200 people the first two were half the cost of a redraw.


@lru_cache(maxsize=512)
def _render_status(status: Line, look: DisplayOptions, columns: int) -> str:
    spans, width = cut_spans_to_width(
        [(style or "status", text) for style, text in status.spans], look, columns
    )
    return style_spans([*spans, ("status", " " * (columns - width))], look)


@lru_cache(maxsize=512)
def _render_progress(progress: Line, look: DisplayOptions, columns: int) -> bytes:
    spans, _ = cut_spans_to_width(progress.spans, look, columns)
    return style_spans(spans, look).encode()


@lru_cache(maxsize=512)
def _render_prompt(spans: tuple[Span, ...], look: DisplayOptions, columns: int) -> tuple[str, int]:
    """Render the prompt; return it and its width."""
    prompt, width = cut_spans_to_width(spans, look, columns)
    return style_spans(prompt, look), width
