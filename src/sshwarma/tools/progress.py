"""Progress of a call: shows everybody in the room the reports of a running tool."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Final, Self

from sshwarma.world.caller import Caller
from sshwarma.world.events import ActiveTool, StreamEnded, StreamUpdated
from sshwarma.world.row import Row

PROGRESS_INTERVAL_SECONDS: Final = 0.1
"""Seconds between updates; faster reports replace each other, as a tool may send thousands."""


class ProgressText(str):
    """A progress report with numbers: how far a tool is, and of how much if known."""

    progress: float
    total: float | None

    def __new__(cls, text: str, progress: float, total: float | None) -> Self:
        """Make a report that is shown as the text."""
        self = super().__new__(cls, text)
        self.progress = progress
        self.total = total
        return self


class CallProgress:
    """Shows the progress reports of a call outside a turn, until its block ends.

    A call that reports nothing shows nothing. `caller` is the agent that calls; its own door gets
    the reports too, unless people there see the room.
    """

    def __init__(self, caller: Caller, call: Row) -> None:
        self._bus = caller.world.bus
        self._on_report = None if caller.is_at_terminal else caller.on_progress
        self._call = call
        self._tool = call.meta["tool"].rpartition(":")[2]
        self._since = time.monotonic()
        self._published_at = 0.0
        self._latest = ""
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._published_at:
            self._bus.publish(StreamEnded(self._call.room_id, self._call.id))

    def report(self, text: str) -> None:
        """Report the progress of the tool."""
        if self._on_report is not None:
            self._on_report(text)
        self._latest = text
        wait = self._published_at + PROGRESS_INTERVAL_SECONDS - time.monotonic()
        if wait <= 0:
            self._publish()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait, self._publish)

    def _publish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._published_at = time.monotonic()
        self._bus.publish(
            StreamUpdated(
                self._call.room_id,
                self._call.id,
                self._call.author_id or "",
                "",
                self._since,
                active_tools=(ActiveTool(self._tool, self._latest),),
            )
        )
