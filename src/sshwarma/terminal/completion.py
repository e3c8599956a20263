"""Completion: candidates from a source, and the menu to choose one of them.

The source runs in a task of its own, so it never delays keys. The requester drops an answer for a
line that has changed since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.text import Line, line
from sshwarma.terminal.width import cut_to_width, snap_to_boundary, text_width

MAX_MENU_ROWS: Final = 8
"""Rows of the menu; with more candidates it scrolls."""

_MAX_DISPLAY_COLUMNS: Final = 32  # columns of the left part of the menu, before the notes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A completion candidate: `text` replaces the line from `start` to the cursor.

    Attributes:
        display: the menu's label; `text` if empty.
        note: a short explanation beside the label.
        space: whether a space follows when the candidate is chosen.
    """

    text: str
    display: str = ""
    note: str = ""
    start: int = 0
    space: bool = False

    @property
    def label(self) -> str:
        """The label in the menu."""
        return self.display or self.text


CompletionSource: TypeAlias = Callable[[str, int], Awaitable[Sequence[Candidate]]]
"""A completion source, called with the line's text and cursor (in code points)."""

CompletionCallback: TypeAlias = Callable[[str, int, Sequence[Candidate]], None]


class CompletionTask:
    """A task that asks a source for candidates; cancel it before a newer one."""

    __slots__ = ("_task",)

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        source: CompletionSource,
        text: str,
        cursor: int,
        answer: CompletionCallback,
    ) -> None:
        async def ask() -> None:
            answer(text, cursor, await source(text, cursor))

        self._task = loop.create_task(ask())
        self._task.add_done_callback(_report_failure)

    def cancel(self) -> None:
        """Cancel the task; `answer` is not called."""
        self._task.cancel()


def _report_failure(task: asyncio.Task[None]) -> None:
    """Report a failed source to the loop's exception handler; no candidates then."""
    if not task.cancelled() and (error := task.exception()):
        task.get_loop().call_exception_handler(
            {"message": "completion failed", "exception": error, "task": task}
        )


def common_prefix(candidates: Sequence[Candidate]) -> str:
    """Return the prefix common to candidates; "" if they replace different ranges."""
    if len({candidate.start for candidate in candidates}) != 1:
        return ""
    texts = [candidate.text for candidate in candidates]
    low, high = min(texts), max(texts)
    size = next((at for at, char in enumerate(low) if char != high[at]), len(low))
    common = low[:size]
    # Do not cut inside a grapheme cluster.
    while common and any(snap_to_boundary(text, len(common)) != len(common) for text in texts):
        common = common[:-1]
    return common


class CandidateMenu:
    """A menu of candidates with at most one chosen.

    `text` and `cursor` are those of the line when the menu opened.
    """

    __slots__ = ("candidates", "cursor", "index", "text")

    def __init__(self, candidates: Sequence[Candidate], text: str, cursor: int) -> None:
        self.candidates = candidates
        self.text = text
        self.cursor = cursor
        self.index = -1

    @property
    def chosen(self) -> Candidate | None:
        """The chosen candidate; None if none is chosen."""
        return self.candidates[self.index] if self.index >= 0 else None

    def select_next(self, by: int) -> Candidate:
        """Choose the next (1) or previous (-1) candidate, wrapping around."""
        if self.index < 0 and by < 0:
            self.index = 0
        self.index = (self.index + by) % len(self.candidates)
        return self.candidates[self.index]

    def lines(self, height: int) -> list[Line]:
        """Draw at most `height` lines of the menu, including the chosen one."""
        count = len(self.candidates)
        height = min(height, MAX_MENU_ROWS, count)
        if height <= 0:
            return []
        top = max(0, min(self.index - height // 2, count - height))
        candidates = self.candidates[top : top + height]
        labels = [
            cut_to_width(escape_controls(candidate.label), _MAX_DISPLAY_COLUMNS)
            for candidate in candidates
        ]
        column = max(map(text_width, labels))
        lines = []
        for number, candidate in enumerate(candidates, top):
            label = labels[number - top]
            label += " " * (column - text_width(label))
            is_selected = number == self.index
            parts = [("mark" if is_selected else "dim", "> " if is_selected else "  ")]
            parts.append(("mention" if is_selected else "", label))
            if candidate.note:
                parts.append(("dim", "  " + candidate.note))
            if number == top + height - 1 and height < count:
                place = f"{self.index + 1} of {count}" if self.index >= 0 else f"{count} in all"
                parts.append(("dim", f"  ({place})"))
            lines.append(line(*parts))
        return lines
