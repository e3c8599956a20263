"""Live view of an answer while it streams: text, running tools and waits."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from sshwarma.common.limits import MAX_ANSWER_CHARACTERS
from sshwarma.models import notes_block
from sshwarma.models.draft import AnswerDraft
from sshwarma.models.surrogates import SurrogateJoiner
from sshwarma.world.end_reason import EndReason
from sshwarma.world.events import ActiveTool, StreamUpdated
from sshwarma.world.turns import Turn
from sshwarma.world.world import World
from sshwarma.wrap.tokens import estimate_tokens

PUBLISH_INTERVAL_SECONDS: Final = 1 / 30


class LiveAnswer:
    """Text and status that one turn shows since its last row.

    It is published at most once every PUBLISH_INTERVAL_SECONDS, and the text is saved as a draft.
    """

    def __init__(self, world: World, turn: Turn) -> None:
        self.text = ""
        self.reasoning = ""
        self.cut_reason: EndReason | None = None  # why it ended early
        self._world = world
        self._turn = turn
        self._draft = AnswerDraft(world, turn.id)
        self._text_joiner, self._reasoning_joiner = SurrogateJoiner(), SurrogateJoiner()
        self._written = 0  # estimated tokens in total, reasoning included
        self._running_tools: dict[int, ActiveTool] = {}  # by number in their step
        self._wait_reason = ""  # reason of a wait other than for tools
        self._started_at = time.monotonic()
        self._published_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the answer waits for something other than tools."""
        return bool(self._wait_reason)

    def write(self, delta: str) -> None:
        """Add text to the answer."""
        delta = self._text_joiner.join(delta)
        self.text = (self.text + delta)[:MAX_ANSWER_CHARACTERS]
        self._count_tokens(delta)

    def append_reasoning(self, delta: str) -> None:
        """Add text to the reasoning."""
        delta = self._reasoning_joiner.join(delta)
        self.reasoning = (self.reasoning + delta)[:MAX_ANSWER_CHARACTERS]
        self._count_tokens(delta)

    def fold_text(self) -> None:
        """Make the text so far reasoning."""
        self.reasoning = (self.reasoning + self.text)[:MAX_ANSWER_CHARACTERS]
        self.text = ""
        self._schedule_publish()

    def set_wait_reason(self, reason: str) -> None:
        """Show the reason of a wait; an empty text clears it."""
        if reason != self._wait_reason:
            self._wait_reason = reason
            self._schedule_publish()

    def set_running_tools(self, *tools: str) -> None:
        """Show running tools, by their names; no arguments clear them."""
        self._running_tools = dict(enumerate(map(ActiveTool, tools)))
        self._schedule_publish()

    def hide_tool(self, number: int) -> None:
        """Show that one tool does not run any more: it has its result, or was refused."""
        if self._running_tools.pop(number, None) is not None:
            self._schedule_publish()

    def report_progress(self, number: int, text: str) -> None:
        """Show the progress of one running tool."""
        if number in self._running_tools:
            tool = self._running_tools[number]
            self._running_tools[number] = ActiveTool(tool.name, text)
            self._schedule_publish()

    def take_text(self) -> str:
        """Return and clear the text, which becomes a row."""
        text, self.text = notes_block.trim_answer(self.text + self._text_joiner.end()), ""
        self._draft.end()
        return text

    def take_reasoning(self) -> str:
        """Return and clear the reasoning, which becomes a row."""
        text, self.reasoning = (self.reasoning + self._reasoning_joiner.end()).strip(), ""
        return text

    def end(self) -> None:
        """Stop publishing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def publish(self) -> None:
        """Publish the current state now."""
        self.end()
        self._published_at = time.monotonic()
        text = notes_block.strip_notes_block(self.text)
        self._draft.update(text)
        self._world.bus.publish(
            StreamUpdated(
                room_id=self._turn.room_id,
                turn_id=self._turn.id,
                author_id=self._turn.agent_id,
                text=text,
                since=self._started_at,
                tokens=self._written,
                active_tools=tuple(self._running_tools.values()),
                wait_reason=self._wait_reason,
            )
        )

    def _count_tokens(self, delta: str) -> None:
        self._written += estimate_tokens(delta)
        self._schedule_publish()

    def _schedule_publish(self) -> None:
        wait = self._published_at + PUBLISH_INTERVAL_SECONDS - time.monotonic()
        if wait <= 0:
            self.publish()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait, self.publish)
