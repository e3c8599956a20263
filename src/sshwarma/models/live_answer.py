"""What people see of an answer while it comes: its words, its tools, what it waits for."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from sshwarma.common.limits import MAX_ANSWER_CHARACTERS
from sshwarma.models import notes_block
from sshwarma.models.draft import AnswerDraft
from sshwarma.world.events import StreamUpdated
from sshwarma.world.turns import Turn
from sshwarma.world.world import World
from sshwarma.wrap.layers import CHARACTERS_PER_TOKEN

FRAME_SECONDS: Final = 1 / 30


class LiveAnswer:
    """What one turn shows since its last row. It is published at once if the last time was a frame
    ago, else when that will be so; and it is on disk soon after."""

    def __init__(self, world: World, turn: Turn) -> None:
        self.text = ""
        self.thought = ""
        self._world = world
        self._turn = turn
        self._draft = AnswerDraft(world, turn.id)
        self._written = 0  # characters in all, thoughts included
        self._running_tools: tuple[str, ...] = ()  # tools it waits for
        self._wait_reason = ""  # what else it waits for
        self._started_at = time.monotonic()
        self._published_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether it waits for something other than its tools."""
        return bool(self._wait_reason)

    def write(self, delta: str) -> None:
        """More of the answer came."""
        self.text = (self.text + delta)[:MAX_ANSWER_CHARACTERS]
        self._count_characters(delta)

    def think(self, delta: str) -> None:
        """More of its reasoning came."""
        self.thought = (self.thought + delta)[:MAX_ANSWER_CHARACTERS]
        self._count_characters(delta)

    def wait(self, what: str) -> None:
        """It waits for something; an empty text ends that."""
        if what != self._wait_reason:
            self._wait_reason = what
            self._schedule_publish()

    def do(self, *tools: str) -> None:
        """It waits for these tools; none ends that."""
        self._running_tools = tools
        self._schedule_publish()

    def report(self, number: int, words: str) -> None:
        """How far one of the tools is."""
        if number < len(self._running_tools):
            doing = list(self._running_tools)
            doing[number] = words
            self.do(*doing)

    def take_text(self) -> str:
        """The text so far, which becomes a row now."""
        text, self.text = self.text.strip(), ""
        self._draft.end()
        return text

    def take_thought(self) -> str:
        """The reasoning so far, which becomes a row now."""
        text, self.thought = self.thought.strip(), ""
        return text

    def end(self) -> None:
        """Nothing of it is published any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def publish(self) -> None:
        """Show it is now."""
        self.end()
        self._published_at = time.monotonic()
        text = notes_block.strip_notes_block(self.text)
        self._draft.show(text)
        self._world.bus.publish(
            StreamUpdated(
                self._turn.room_id,
                self._turn.id,
                self._turn.agent_id,
                text,
                self._started_at,
                round(self._written / CHARACTERS_PER_TOKEN),
                self._running_tools,
                self._wait_reason,
            )
        )

    def _count_characters(self, delta: str) -> None:
        self._written += len(delta)
        self._schedule_publish()

    def _schedule_publish(self) -> None:
        wait = self._published_at + FRAME_SECONDS - time.monotonic()
        if wait <= 0:
            self.publish()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait, self.publish)
