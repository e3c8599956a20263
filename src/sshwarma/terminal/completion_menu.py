"""Tab completion: requests candidates, inserts the common prefix, runs the menu."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from sshwarma.terminal.completion import (
    Candidate,
    CandidateMenu,
    CompletionSource,
    CompletionTask,
    common_prefix,
)
from sshwarma.terminal.editor import Editor
from sshwarma.terminal.keys import KeyPress
from sshwarma.terminal.output import TerminalOutput
from sshwarma.terminal.text import block

_NEXT_KEYS: Final = ("tab", "down", "c-n")
_PREVIOUS_KEYS: Final = ("s-tab", "up", "c-p")


class TabCompletion:
    """Tab completion of one person's line.

    `answered` is called when candidates have changed the line or the menu. The methods are called
    while a key is processed.
    """

    __slots__ = ("_answered", "_editor", "_loop", "_output", "_request", "_source")

    def __init__(
        self,
        source: CompletionSource,
        editor: Editor,
        output: TerminalOutput,
        loop: asyncio.AbstractEventLoop,
        answered: Callable[[], None],
    ) -> None:
        self._source = source
        self._editor = editor
        self._output = output
        self._loop = loop
        self._answered = answered
        self._request: CompletionTask | None = None

    def request_candidates(self) -> None:
        """Request candidates for the current line."""
        self.close()
        buffer = self._editor.buffer
        self._request = CompletionTask(
            self._loop, self._source, buffer.text, buffer.cursor, self._answer
        )

    def press(self, key: KeyPress) -> bool:
        """Process a key for the menu; return False if the key still needs processing."""
        menu = self._output.view.menu
        if menu is None:
            return False
        buffer = self._editor.buffer
        if key.name in _NEXT_KEYS or key.name in _PREVIOUS_KEYS:
            candidate = menu.select_next(1 if key.name in _NEXT_KEYS else -1)
            prefix = menu.text[: candidate.start] + candidate.text
            buffer.set(prefix + menu.text[menu.cursor :], len(prefix))
            return True
        selection = menu.chosen
        self.close()
        if key.name == "escape":
            buffer.set(menu.text, menu.cursor)
            return True
        if key.name == "enter" and selection:
            if selection.space:
                buffer.insert(" ")
            return True
        return False

    def close(self) -> None:
        """Close the menu and cancel the request."""
        self._output.view.menu = None
        if self._request is not None:
            self._request.cancel()
            self._request = None

    def _answer(self, text: str, cursor: int, candidates: Sequence[Candidate]) -> None:
        """Process the candidates for a line, unless the line has changed."""
        self._request = None
        buffer = self._editor.buffer
        is_searching = self._editor.search_query is not None
        if not self._output.open or is_searching or (buffer.text, buffer.cursor) != (text, cursor):
            return
        candidates = [item for item in candidates if 0 <= item.start <= cursor]
        if not candidates:
            self._output.bell()
        elif len(candidates) == 1:
            candidate = candidates[0]
            self._insert(candidate.start, candidate.text + " " * candidate.space)
        else:
            start, common = candidates[0].start, common_prefix(candidates)
            if len(common) > cursor - start:
                self._insert(start, common)
            self._output.view.menu = CandidateMenu(candidates, buffer.text, buffer.cursor)
            if self._output.look.plain:
                self._output.print(block("  ".join(item.label for item in candidates)))
        self._answered()

    def _insert(self, start: int, text: str) -> None:
        buffer = self._editor.buffer
        if not buffer.replace(start, buffer.cursor, text):
            self._output.bell()
