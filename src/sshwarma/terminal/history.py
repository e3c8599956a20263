"""Input history: walking through submitted lines by prefix, and searching them.

The owner's lines are shared by reference and never changed; lines of this terminal are kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_ADDED_LINES: Final = 500
"""Submitted lines kept per terminal; the oldest are dropped first."""

MAX_SEARCHED_LINES: Final = 2000
"""Lines that a walk or a search examines for one key."""


class InputHistory:
    """The input history of a terminal, oldest line first."""

    __slots__ = ("_added", "_at", "_draft", "_older", "_shown")

    def __init__(self, older: Sequence[str] = ()) -> None:
        self._older = older
        self._added: list[str] = []
        self._at = -1  # index of the walk's current line; -1 without a walk
        self._draft = ""
        self._shown = ""

    def __len__(self) -> int:
        return len(self._older) + len(self._added)

    def __getitem__(self, index: int) -> str:
        older = len(self._older)
        return self._older[index] if index < older else self._added[index - older]

    @property
    def added_lines(self) -> Sequence[str]:
        """Lines submitted here, oldest first."""
        return self._added

    def add(self, line: str) -> None:
        """Add a submitted line, unless it is blank or equal to the last."""
        self._at = -1
        if not line.strip() or (len(self) and self[len(self) - 1] == line):
            return
        self._added.append(line)
        if len(self._added) > MAX_ADDED_LINES:
            del self._added[0]

    def up(self, text: str) -> str | None:
        """Return the next older line with the draft as its prefix, or None."""
        if self._at < 0 or text != self._shown:
            self._at, self._draft = len(self), text
        for index in range(self._at - 1, max(-1, self._at - 1 - MAX_SEARCHED_LINES), -1):
            line = self[index]
            if line.startswith(self._draft) and line != text:
                self._at, self._shown = index, line
                return line
        return None

    def down(self, text: str) -> str | None:
        """Return the next newer such line, or the draft at the end; None without a walk."""
        if self._at < 0 or text != self._shown:
            return None
        for index in range(self._at + 1, len(self)):
            line = self[index]
            if line.startswith(self._draft) and line != text:
                self._at, self._shown = index, line
                return line
        self._at = -1
        return self._draft

    def find(self, query: str, newest: int) -> int | None:
        """Return the index of the newest line up to `newest` that has `query`, or None."""
        newest = min(newest, len(self) - 1)
        for index in range(newest, max(-1, newest - MAX_SEARCHED_LINES), -1):
            if query in self[index]:
                return index
        return None
