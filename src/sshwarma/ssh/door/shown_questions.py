"""Questions for approvals on a terminal: which of them its person sees whole."""

from __future__ import annotations

import asyncio
from typing import Final

from cachetools import LRUCache

from sshwarma.ssh.transport.interfaces import Channel
from sshwarma.terminal.terminal import Terminal
from sshwarma.terminal.text import Block
from sshwarma.tools.approvals import APPROVAL_KEY
from sshwarma.world.errors import Conflict
from sshwarma.world.reader import next_call
from sshwarma.world.row import Row

MAX_REMEMBERED_QUESTIONS: Final = 64
"""Questions whose drawings are kept: more than can wait in one room."""


class ShownQuestions:
    """The questions that were printed on a terminal.

    F8 is a line without a number. It means what is on the screen, and answers nothing else.
    """

    def __init__(self, terminal: Terminal, channel: Channel) -> None:
        self._terminal = terminal
        self._channel = channel
        self._blocks: LRUCache[int, Block] = LRUCache(MAX_REMEMBERED_QUESTIONS)

    def remember(self, row: Row, drawn: Block) -> None:
        """Take note of a printed row, which may be a question."""
        number = row.meta.get(APPROVAL_KEY)
        if isinstance(number, int):
            self._blocks[number] = drawn

    def list_shown(self) -> frozenset[int]:
        """Return the numbers of the questions that are on the screen now, all of each."""
        if not self._blocks or self._channel.is_too_small:
            return frozenset()
        shows_all_of = self._terminal.shows_all_of
        return frozenset(number for number, drawn in self._blocks.items() if shows_all_of(drawn))

    def check(self, number: int, shown: frozenset[int]) -> None:
        """Check that a question was on the screen when it was answered by no number.

        One that was not is printed again, if the screen can show all of it: below the refusal,
        which would else push it away.

        Args:
            number: of the question.
            shown: what `list_shown` returned at that time.

        Raises:
            Conflict: if it was not.
        """
        if number in shown:
            return
        drawn = self._blocks.get(number)
        if drawn is None:
            hint = next_call("{} shows it.", "approvals")
            raise Conflict(f"Question {number} is not on your screen.", hint=hint)
        if self._channel.is_too_small or not self._terminal.has_room_for(drawn):
            raise Conflict(
                f"Question {number} is longer than your screen.",
                hint=next_call("If you have read all of it: {}", "allow", number=number),
            )
        asyncio.get_running_loop().call_soon(self._terminal.print, drawn)
        problem = "is not on your screen, or not all of it"
        if not self._terminal.is_drawn_for_size(drawn):
            problem = "was drawn before your terminal changed its size and may be cut off"
        raise Conflict(
            f"Question {number} {problem}.", hint="Here it is again; then F8 or /allow answers it."
        )
