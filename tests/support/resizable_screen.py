"""pyte's screen, resized as terminals do; pyte cuts rows and loses the cursor."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyte
from pyte.screens import StaticDefaultDict

Cells = dict[int, Any]


@lru_cache(maxsize=65_536)
def _cell(attrs: Any, letter: str) -> Any:
    return attrs._replace(data=letter)


class _Row(StaticDefaultDict[int, Any]):
    wrapped = False


class ResizableScreen(pyte.HistoryScreen):
    """A screen that keeps its rows when it is resized, as tmux, kitty and VTE do.

    A row that is too wide is wrapped, and one row again when there is room. The cursor keeps its
    place in the text: rows scroll away above it, or come back from the scrollback.

    Attributes:
        wraps: whether rows are wrapped; False cuts them, as xterm and GNU screen do.
    """

    wraps = True

    __getattribute__ = object.__getattribute__
    """pyte's own wraps every call, for paging through the scrollback: nobody does that here, and it
    takes most of the time."""

    def draw(self, data: str) -> None:
        """Draw plain ASCII as pyte does, in a tenth of its time; leave the rest to pyte."""
        if not (data.isascii() and data.isprintable()) or self._draws_otherwise():
            super().draw(data)
            return
        start = 0
        while start < len(data):
            if self.cursor.x == self.columns and pyte.modes.DECAWM not in self.mode:
                self.cursor.x -= 1
                start = len(data) - 1  # each letter takes the place of the one before
            elif self.cursor.x == self.columns:
                self.dirty.add(self.cursor.y)
                self.carriage_return()
                self.linefeed()
            at = self.cursor.x
            piece = data[start : start + self.columns - at]
            attrs = self.cursor.attrs
            row = self.buffer[self.cursor.y]
            for x, letter in enumerate(piece, at):
                row[x] = _cell(attrs, letter)
            start += len(piece)
            self.cursor.x = at + len(piece)
        self.dirty.add(self.cursor.y)

    def _draws_otherwise(self) -> bool:
        charset = self.g1_charset if self.charset else self.g0_charset
        return charset is not pyte.charsets.LAT1_MAP or pyte.modes.IRM in self.mode

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        if (lines, columns) == (self.lines, self.columns):
            return
        rows = [*self.history.top, *(self.buffer[y] for y in range(self.lines))]
        texts, wrapped = [self._cells(row) for row in rows], [is_wrapped(row) for row in rows]
        at = len(self.history.top) + self.cursor.y
        column = self.cursor.x
        if columns != self.columns and self.wraps:
            texts, wrapped, at, column = _rewrap(texts, wrapped, at, column, columns)
        elif columns < self.columns:
            texts = [{x: cell for x, cell in cells.items() if x < columns} for cells in texts]
        while len(texts) > max(at + 1, lines) and not texts[-1]:
            texts.pop()
        top = max(0, len(texts) - lines)
        if at < top:  # rows below the cursor go first
            del texts[at + lines :]
            top = max(0, len(texts) - lines)
        super().resize(lines, columns)
        self.history.top.clear()
        self.history.bottom.clear()
        self.buffer.clear()
        for number, cells in enumerate(texts):
            row = _Row(self.default_char)
            row.update(cells)
            row.wrapped = wrapped[number]
            if number < top:
                self.history.top.append(row)
            else:
                self.buffer[number - top] = row
        self.cursor.y = at - top
        self.cursor.x = min(column, columns - 1)
        self.dirty.update(range(lines))

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        super().erase_in_display(how, *args, **kwargs)
        for y in range(self.cursor.y if how == 0 else 0, self.lines):
            row: Any = self.buffer[y]
            row.wrapped = False
            if y > self.cursor.y or self.cursor.x == 0:
                row.clear()

    def _cells(self, row: Cells) -> Cells:
        """The cells of a row up to its last character."""
        used = [x for x, cell in row.items() if cell.data != " " and x < self.columns]
        end = max(used, default=-1)
        return {x: row[x] for x in range(end + 1)}


def is_wrapped(row: Cells) -> bool:
    """Whether the next row continues this one."""
    return bool(getattr(row, "wrapped", False))


def _rewrap(
    texts: list[Cells], wrapped: list[bool], at: int, column: int, columns: int
) -> tuple[list[Cells], list[bool], int, int]:
    """Join the wrapped rows and wrap them at `columns`; follow the cursor."""
    new: list[Cells] = []
    marks: list[bool] = []
    new_at = new_column = 0
    number = 0
    while number < len(texts):
        joined: list[Any] = []
        offset = -1
        while True:
            if number == at:
                offset = len(joined) + column
            cells = texts[number]
            joined += [cells[x] for x in range(len(cells))]
            number += 1
            if number == len(texts) or not wrapped[number - 1]:
                break
        start = len(new)
        pieces = [joined[x : x + columns] for x in range(0, len(joined), columns)] or [[]]
        new += [dict(enumerate(piece)) for piece in pieces]
        marks += [True] * (len(pieces) - 1) + [False]
        if offset >= 0:
            piece = min(offset // columns, len(pieces) - 1)
            new_at, new_column = start + piece, offset - piece * columns
    return new, marks, new_at, new_column
