"""Lines submitted before: walking back through them by prefix, and searching.

What the owner hands in is shared by reference and never changed; what this terminal adds is kept
beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_ADDED_LINES: Final = 500
"""Lines kept of what this terminal submitted; the oldest go first."""

MAX_SEARCHED_LINES: Final = 2000
"""Lines a walk or a search looks at for one key."""


class InputHistory:
    """Oldest first, like a file of lines."""

    __slots__ = ("_added", "_at", "_draft", "_older", "_shown")

    def __init__(self, older: Sequence[str] = ()) -> None:
        self._older = older
        self._added: list[str] = []
        self._at = -1  # the line a walk stands on; -1 is none
        self._draft = ""
        self._shown = ""

    def __len__(self) -> int:
        return len(self._older) + len(self._added)

    def __getitem__(self, index: int) -> str:
        older = len(self._older)
        return self._older[index] if index < older else self._added[index - older]

    @property
    def added(self) -> Sequence[str]:
        """What was submitted here, oldest first."""
        return self._added

    def add(self, line: str) -> None:
        """Keep a submitted line, unless it is blank or the same as the last."""
        self._at = -1
        if not line.strip() or (len(self) and self[len(self) - 1] == line):
            return
        self._added.append(line)
        if len(self._added) > MAX_ADDED_LINES:
            del self._added[0]

    def up(self, text: str) -> str | None:
        """The next older line that begins as the draft did; None when there is none."""
        if self._at < 0 or text != self._shown:
            self._at, self._draft = len(self), text
        for index in range(self._at - 1, max(-1, self._at - 1 - MAX_SEARCHED_LINES), -1):
            line = self[index]
            if line.startswith(self._draft) and line != text:
                self._at, self._shown = index, line
                return line
        return None

    def down(self, text: str) -> str | None:
        """The next newer such line, at last the draft; None when no walk is under way."""
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
        """The index of the newest line at or before `newest` that contains `query`."""
        newest = min(newest, len(self) - 1)
        for index in range(newest, max(-1, newest - MAX_SEARCHED_LINES), -1):
            if query in self[index]:
                return index
        return None
