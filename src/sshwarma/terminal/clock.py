"""The frame clock: one timer that paces drawing for all terminals of the server.

The first change after a pause is drawn in the next turn of the loop; after that there is at most
one frame per FRAME_SECONDS. A thousand lines in one turn are one frame per terminal. When a crowd
makes drawing slow, frames are further apart, so that drawing takes at most a quarter of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

FRAME_SECONDS: Final = 0.02
"""Minimum time between two frames."""

MAX_FRAME_SECONDS: Final = 0.1
"""Maximum time between two frames, however long drawing takes."""

MAX_DRAW_SECONDS: Final = 0.005
"""Time that one turn of the loop may spend drawing; a frame with many lines takes a millisecond."""

FRAME_REST_FACTOR: Final = 3
"""The wait before the next frame, as a multiple of the time that drawing took."""


class FrameTarget(Protocol):
    """A terminal whose frames the clock draws."""

    def frame(self) -> None:
        """Write the changes since the last frame."""


class FrameClock:
    """The frame timer shared by all terminals of one event loop."""

    __slots__ = ("_dirty", "_drawing", "_last", "_scheduled", "_spent", "_timer", "_wait", "loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timer: Callable[[], float] | None = None
    ) -> None:
        """Make the clock of a loop.

        Args:
            loop: the event loop.
            timer: measures the time that drawing takes, in seconds; by default the loop's clock,
                which stands still within a turn of uvloop.
        """
        self.loop = loop
        self._timer = timer or loop.time
        self._dirty: dict[FrameTarget, None] = {}
        self._drawing: dict[FrameTarget, None] = {}
        self._last = -MAX_FRAME_SECONDS
        self._spent = 0.0  # on the frame that is being drawn
        self._wait = FRAME_SECONDS
        self._scheduled = False

    def request_frame(self, terminal: FrameTarget) -> None:
        """Schedule the terminal's `frame`, once for all marks until then."""
        self._dirty[terminal] = None
        if not self._scheduled:
            self._schedule()

    def forget(self, terminal: FrameTarget) -> None:
        """Remove a closed terminal."""
        self._dirty.pop(terminal, None)
        self._drawing.pop(terminal, None)

    def call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Schedule a call after a number of seconds; the returned handle can cancel it."""
        return self.loop.call_later(seconds, call)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Schedule a call in the next turn of the loop."""
        self.loop.call_soon(call)

    def now(self) -> float:
        """Return the time of the loop's clock, in seconds."""
        return self.loop.time()

    def _schedule(self) -> None:
        self._scheduled = True
        wait = self._last + self._wait - self.loop.time()
        if wait > 0:
            self.loop.call_later(wait, self._tick)
        else:
            self.loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._last = self.loop.time()
        self._drawing, self._dirty = self._dirty, {}
        self._spent = 0.0
        self._draw()

    def _draw(self) -> None:
        """Draw some frames, others in the next turns, so a crowd does not delay keys."""
        drawing = self._drawing
        start = self._timer()
        try:
            while drawing and self._timer() - start < MAX_DRAW_SECONDS:
                terminal, _ = drawing.popitem()
                terminal.frame()
        finally:
            self._spent += self._timer() - start
            # The loop reports a failing terminal; the others still get their frame.
            if drawing:
                self.loop.call_soon(self._draw)
            else:
                self._wait = min(
                    max(FRAME_SECONDS, FRAME_REST_FACTOR * self._spent), MAX_FRAME_SECONDS
                )
                self._scheduled = False
                if self._dirty:
                    self._schedule()
