"""The drain of a server: what runs is finished, and then it ends.

A balancer sees it by /healthz and by checks of ssh; new logins over ssh are refused with the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from sshwarma.common.limits import STOP_DRAIN_SECONDS
from sshwarma.common.units import MINUTE_SECONDS
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.world.announcements import make_announcement
from sshwarma.world.events import Announcement
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

SHUTDOWN_MESSAGE: Final = "The server is shutting down. What was said is kept; come back soon."
RESTART_MESSAGE: Final = "Goodbye: this server restarts. Connect again now: you stay where you are."
"""What people read at the end: of a stop, and of a drain."""

LOOK_SECONDS: Final = 0.1
"""Seconds between two looks at whether anything still runs."""

SERVER: Final = "the server"
"""Whose name its own announcements have; no agent can be called so."""


class DrainedDoor(Protocol):
    """The ssh door."""

    closed_for: str

    @property
    def clients(self) -> Sequence[object]:
        """The connections of people and programs."""


class Drain:
    """Begins, takes back and ends the drain of a server.

    Attributes:
        over: set when the server must end.
        farewell: what people read then.
    """

    def __init__(self, world: World, turns: TurnRunner, ssh: DrainedDoor) -> None:
        self.over = asyncio.Event()
        self.farewell = SHUTDOWN_MESSAGE
        self._world = world
        self._turns = turns
        self._ssh = ssh
        self._task: asyncio.Task[None] | None = None

    @property
    def answers(self) -> int:
        """Number of answers in progress."""
        return self._turns.count_running().total()

    def begin(self, seconds: float) -> Announcement:
        """Drain for at most some `seconds`; return what people have to read.

        It ends earlier when nobody is connected and no answer is in progress.
        """
        self._close(seconds)
        self._stop_watch()
        self._task = asyncio.get_running_loop().create_task(self._watch())
        draining = self._world.draining
        text = f"{_capitalize(draining.describe())}, in {_write_span(seconds)}."
        advice = "You can stay until then. Connect again after that: you stay where you are."
        return make_announcement(SERVER, f"{text} {advice}")

    def cancel(self) -> Announcement:
        """Take the drain back; return what people have to read."""
        self._stop_watch()
        self._world.draining.cancel()
        self._ssh.closed_for = ""
        log.info("the drain was cancelled")
        return make_announcement(SERVER, "This server does not restart: it goes on.")

    async def finish_answers(self, seconds: float = STOP_DRAIN_SECONDS) -> None:
        """Wait for the answers in progress, if there are any; the server ends then."""
        if not self.answers:
            return
        seconds = min(seconds, self._world.draining.seconds_left)
        self._close(seconds)
        text = f"This server restarts when answers are complete, within {_write_span(seconds)}."
        advice = "Connect again after that: you stay where you are."
        self._world.publish(make_announcement(SERVER, f"{text} {advice}"))
        await self._turns.wait_until_idle(seconds)

    async def close(self) -> None:
        """End the watch of a drain."""
        self._stop_watch()

    def _close(self, seconds: float) -> None:
        draining = self._world.draining
        draining.begin(seconds)
        self._ssh.closed_for = f"{draining.describe()}; connect again then"
        log.info("draining", seconds=round(seconds), answers=self.answers)

    def _stop_watch(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        """Wait until nobody needs the server any more, or its time is over."""
        world = self._world
        while world.draining.seconds_left:
            if not (self.answers or self._ssh.clients or len(world.presence)):
                break
            await asyncio.sleep(min(LOOK_SECONDS, world.draining.seconds_left))
        self.farewell = RESTART_MESSAGE
        self.over.set()


def _capitalize(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _write_span(seconds: float) -> str:
    """Return a time span in words: `10 minutes`, `90 seconds`."""
    if seconds >= 2 * MINUTE_SECONDS:
        return f"{round(seconds / MINUTE_SECONDS)} minutes"
    count = round(seconds)
    return f"{count} second" if count == 1 else f"{count} seconds"
