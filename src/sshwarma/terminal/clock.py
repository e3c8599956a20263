"""When frames are drawn: one timer for every terminal of the server.

The first change after a quiet time is drawn in the next turn of the loop; after that there is at
most one frame in FRAME seconds. A thousand lines said in one turn are one frame a terminal. Where a
crowd makes drawing dear, frames are further apart, so that drawing takes a quarter of the time at
most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

FRAME_SECONDS: Final = 0.02
"""Seconds between two frames."""

MAX_FRAME_SECONDS: Final = 0.1
"""Seconds between two frames, however long they take."""

MAX_FRAMES_PER_TURN: Final = 100
"""Terminals drawn in one turn of the loop: about 5 ms."""

FRAME_REST_FACTOR: Final = 3
"""Times as long as a frame took is waited before the next."""


class FrameTarget(Protocol):
    """Who has frames drawn."""

    def frame(self) -> None:
        """Write what has changed."""


class FrameClock:
    """Shared by all terminals of one loop."""

    __slots__ = ("_dirty", "_drawing", "_last", "_scheduled", "_wait", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._dirty: dict[FrameTarget, None] = {}
        self._drawing: dict[FrameTarget, None] = {}
        self._last = -MAX_FRAME_SECONDS
        self._wait = FRAME_SECONDS
        self._scheduled = False

    def mark(self, terminal: FrameTarget) -> None:
        """Have the terminal's `frame` called soon, once for all marks until then."""
        self._dirty[terminal] = None
        if not self._scheduled:
            self._schedule()

    def forget(self, terminal: FrameTarget) -> None:
        """The terminal is gone."""
        self._dirty.pop(terminal, None)
        self._drawing.pop(terminal, None)

    def after(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, call)

    def soon(self, call: Callable[[], None]) -> None:
        self.loop.call_soon(call)

    def now(self) -> float:
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
        self._draw()

    def _draw(self) -> None:
        """Some of the frames; the rest in the next turns, so that a crowd's do not hold up keys."""
        drawing = self._drawing
        try:
            for _ in range(min(MAX_FRAMES_PER_TURN, len(drawing))):
                terminal, _ = drawing.popitem()
                terminal.frame()
        finally:
            # One that fails is reported by the loop; the others get their frame all the same.
            if drawing:
                self.loop.call_soon(self._draw)
            else:
                took = self.loop.time() - self._last
                self._wait = min(max(FRAME_SECONDS, FRAME_REST_FACTOR * took), MAX_FRAME_SECONDS)
                self._scheduled = False
                if self._dirty:
                    self._schedule()
