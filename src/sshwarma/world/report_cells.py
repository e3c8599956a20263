"""The rows of an answer of PostgreSQL, within the limits of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from sshwarma.world.report_worker import MAX_COUNTED_ROWS, MAX_HEADING_CHARACTERS

MAX_NUMBER_CHARACTERS: Final = 40
"""Characters of a decimal number that is shown as a number; a longer one is text."""

_BOOLEAN, _BYTES, _NUMERIC = 16, 17, 1700
_INTEGERS: Final = frozenset((20, 21, 23))
_FLOATS: Final = frozenset((700, 701))

Cell = None | int | float | str


class AnswerRows:
    """The rows of an answer so far.

    Attributes:
        columns: their names.
        more: rows that are counted and not shown.
        is_full: whether no further row is shown.
    """

    def __init__(
        self, names: Sequence[str], types: Sequence[int], question: dict[str, Any]
    ) -> None:
        self.columns = [_cut(name, MAX_HEADING_CHARACTERS) for name in names]
        self.max_cell_characters: int = question["cell"]
        self.more = 0
        self.is_full = False
        self._types = types
        self._max_rows: int = question["rows"]
        self._max_characters: int = question["size"]
        self._rows: list[list[Cell]] = []
        self._size = 0
        self._cut_cells = 0

    @property
    def may_count(self) -> bool:
        """Whether further rows are counted."""
        return len(self._rows) + self.more < MAX_COUNTED_ROWS

    def add(self, row: Sequence[str | None]) -> None:
        """Show a row, or count it if the answer is full."""
        if self.is_full:
            self.more += 1
            return
        cut_cells = self._cut_cells
        cells = [self._shown(value, type_) for value, type_ in zip(row, self._types, strict=True)]
        size = self._size + sum(len(str(cell)) for cell in cells)
        if self._rows and size > self._max_characters:
            self.is_full, self._cut_cells, self.more = True, cut_cells, 1
            return
        self._rows.append(cells)
        self._size = size
        self.is_full = len(self._rows) >= self._max_rows

    def finish(self, *, uncounted: bool = False) -> dict[str, Any]:
        """Return the answer."""
        return {
            "columns": self.columns,
            "rows": self._rows,
            "more": self.more,
            "uncounted": uncounted,
            "cut_cells": self._cut_cells,
        }

    def _shown(self, value: str | None, type_: int) -> Cell:
        """Return a value as SQLite would give it."""
        if value is None:
            return None
        if type_ in _INTEGERS:
            return int(value)
        if type_ == _BOOLEAN:
            return int(value == "true")
        if type_ in _FLOATS:
            number = float(value)
            return number if math.isfinite(number) else str(number)
        if type_ == _NUMERIC and len(value) <= MAX_NUMBER_CHARACTERS:
            return _convert_numeric(value)
        if type_ == _BYTES:
            value = f"x'{value.removeprefix(chr(92) + 'x')}'"
        if len(value) > self.max_cell_characters:
            self._cut_cells += 1
            return _cut(value, self.max_cell_characters)
        return value


def _convert_numeric(value: str) -> Cell:
    """Return an integer for a number without decimals, as a sum of integers is one."""
    number = Decimal(value)
    if not number.is_finite():
        return str(float(number))
    return int(number) if "." not in value else float(number)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
