"""Completion: what a source proposes, and the menu a person chooses from.

The source is asked in a task of its own, so keys are never held up by it; an answer to a line
that has changed since is dropped by whoever asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sshwarma.terminal.escape import escape_controls
from sshwarma.terminal.text import Line, line
from sshwarma.terminal.width import clip_text, snap_to_boundary, text_width

MAX_MENU_ROWS: Final = 8
"""Rows of the menu; with more candidates it scrolls."""

_MAX_DISPLAY_COLUMNS: Final = 32  # columns of the left part of the menu, before the notes


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposal: `text` takes the place of the line from `start` to the cursor.

    display: what the menu shows, `text` if empty. note: a word of explanation beside it.
    space: whether a space follows when it is the one chosen.
    """

    text: str
    display: str = ""
    note: str = ""
    start: int = 0
    space: bool = False

    @property
    def label(self) -> str:
        return self.display or self.text


CompletionSource: TypeAlias = Callable[[str, int], Awaitable[Sequence[Candidate]]]
"""Called with the text and the cursor (in code points) of the line as it is."""

CompletionCallback: TypeAlias = Callable[[str, int, Sequence[Candidate]], None]


class CompletionRequest:
    """A question under way to a source. A newer one is to cancel it."""

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
        self._task.cancel()


def _report_failure(task: asyncio.Task[None]) -> None:
    """A source that fails proposes nothing; its error goes where the loop's errors go."""
    if not task.cancelled() and (error := task.exception()):
        task.get_loop().call_exception_handler(
            {"message": "completion failed", "exception": error, "task": task}
        )


def common_prefix(candidates: Sequence[Candidate]) -> str:
    """The beginning all candidates have in common, if they replace the same part of the line."""
    if len({candidate.start for candidate in candidates}) != 1:
        return ""
    texts = [candidate.text for candidate in candidates]
    low, high = min(texts), max(texts)
    size = next((at for at, char in enumerate(low) if char != high[at]), len(low))
    common = low[:size]
    # Half a character is not something to insert.
    while common and any(snap_to_boundary(text, len(common)) != len(common) for text in texts):
        common = common[:-1]
    return common


class CandidateMenu:
    """Several candidates, one of them chosen or none yet.

    `text` and `cursor` are the line as it was when the menu opened.
    """

    __slots__ = ("candidates", "cursor", "index", "text")

    def __init__(self, candidates: Sequence[Candidate], text: str, cursor: int) -> None:
        self.candidates = candidates
        self.text = text
        self.cursor = cursor
        self.index = -1

    @property
    def chosen(self) -> Candidate | None:
        return self.candidates[self.index] if self.index >= 0 else None

    def step(self, by: int) -> Candidate:
        """Choose the next (1) or the previous (-1) candidate, round and round."""
        if self.index < 0 and by < 0:
            self.index = 0
        self.index = (self.index + by) % len(self.candidates)
        return self.candidates[self.index]

    def lines(self, height: int) -> list[Line]:
        """At most `height` lines of the menu, the chosen one among them."""
        count = len(self.candidates)
        height = min(height, MAX_MENU_ROWS, count)
        if height <= 0:
            return []
        top = max(0, min(self.index - height // 2, count - height))
        seen = self.candidates[top : top + height]
        labels = [
            clip_text(escape_controls(candidate.label), _MAX_DISPLAY_COLUMNS) for candidate in seen
        ]
        column = max(map(text_width, labels))
        lines = []
        for number, candidate in enumerate(seen, top):
            label = labels[number - top]
            label += " " * (column - text_width(label))
            chosen = number == self.index
            parts = [("mark" if chosen else "dim", "> " if chosen else "  ")]
            parts.append(("mention" if chosen else "", label))
            if candidate.note:
                parts.append(("dim", "  " + candidate.note))
            if number == top + height - 1 and height < count:
                parts.append(("dim", f"  ({self.index + 1} of {count})"))
            lines.append(line(*parts))
        return lines
