"""Screen for screen readers and dumb terminals: lines, backspaces in the last.

It writes no escape sequence and never changes a line above the last. It has no live area and no
status. It has the methods of `screen.Screen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sshwarma.terminal.render import DisplayOptions, cut_spans_to_width, escape_text
from sshwarma.terminal.screen import MIN_INPUT_COLUMNS, ScreenView
from sshwarma.terminal.text import Block
from sshwarma.terminal.width import split_clusters, text_width


class PlainScreen:
    """The last line of a terminal that can move its cursor only back.

    `rows_on_screen` are the rows above that line which are on the screen in every terminal.
    """

    __slots__ = ("_at", "_stale", "_units", "look", "rows", "rows_on_screen")

    region_rows: Final = 1

    start: Final = b""
    stop: Final = b""

    def __init__(self, look: DisplayOptions, rows: int) -> None:
        self.look = look
        self.rows = rows
        self.rows_on_screen = 0
        self._units: list[str] | None = None  # clusters of the last line; None if not drawn here
        self._at = 0  # number of clusters before the cursor
        self._stale = True

    def mark_stale(self) -> None:
        """Draw the last line again with the next frame, because the view has changed."""
        self._stale = True

    def frame(self, view: ScreenView, committed: bytes = b"") -> bytes:
        """Print `committed` on its own lines, then the prompt and the draft again."""
        if committed:
            output = self.end_line() + committed + self._update(view)
        else:
            output = self._update(view) if self._stale or self._units is None else b""
        # The rows of a whole line that is printed again are taken for others: they may be.
        self.rows_on_screen = min(self.rows_on_screen + output.count(b"\n"), self.rows - 1)
        return output

    def repaint(self, view: ScreenView, recent: Sequence[Block]) -> bytes:
        """Print the prompt and the draft on a new line; keep the lines above."""
        return self.end_line() + self._update(view)

    def resize(self, columns: int, rows: int) -> None:
        """Set the size; a last line now too wide is printed again when it changes."""
        self.rows = rows

    def echo_typed(self, text: str, before: str) -> bytes | None:
        """Return None: typed text always needs a frame."""
        return None

    def end_line(self) -> bytes:
        """Start a new line if the last one is not empty."""
        if self._units is None:
            return b""
        self._units = None
        return b"\r\n"

    def leave(self) -> bytes:
        """End the last line, before the screen is closed or replaced."""
        return self.end_line()

    def _update(self, view: ScreenView) -> bytes:
        """Update the last line so that a screen reader repeats as little as possible."""
        self._stale = False
        prompt, _ = cut_spans_to_width(view.prompt, self.look, self.look.width - MIN_INPUT_COLUMNS)
        start = [unit for _, text in prompt for unit in split_clusters(text)]
        new_units = start + self._visible_units(view.text)
        at = len(start) + len(self._visible_units(view.text[: view.cursor]))
        old_units = self._units
        self._units = new_units
        if old_units is None:
            self._at = at
            return self._bytes("".join(new_units) + _move_back(new_units[at:]))
        common_length = 0
        for was, is_now in zip(old_units, new_units, strict=False):
            if was != is_now:
                break
            common_length += 1
        old_at, self._at = self._at, at
        is_append = common_length == len(old_units) and old_at == len(old_units)
        if (
            not is_append
            and max(_units_width(old_units), _units_width(new_units)) >= self.look.width
        ):
            # A backspace does not cross the edge: print the whole line again.
            return b"\r\n" + self._bytes("".join(new_units) + _move_back(new_units[at:]))
        excess = (
            max(
                0, _units_width(old_units[common_length:]) - _units_width(new_units[common_length:])
            )
            if new_units != old_units
            else 0
        )
        if new_units == old_units:
            common_length = at
        move = (
            _move_back(old_units[common_length:old_at])
            if old_at > common_length
            else "".join(old_units[old_at:common_length])
        )
        if new_units == old_units:
            return self._bytes(move)
        change = "".join(new_units[common_length:]) + " " * excess + "\b" * excess
        return self._bytes(move + change + _move_back(new_units[at:]))

    def _visible_units(self, text: str) -> list[str]:
        return [
            cluster if cluster.isprintable() else escape_text(cluster, self.look.utf8)
            for cluster in split_clusters(text)
        ]

    def _bytes(self, text: str) -> bytes:
        return text.encode() if self.look.utf8 else text.encode("ascii", "replace")


def _units_width(units: Sequence[str]) -> int:
    return sum(map(text_width, units))


def _move_back(units: Sequence[str]) -> str:
    return "\b" * _units_width(units)
