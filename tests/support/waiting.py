"""Waiting for what nobody announces, and a clock that a test moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

SECONDS = 30.0
"""The longest any test waits for one thing."""


async def until(
    condition: Callable[[], object], seconds: float = SECONDS, pause: float = 0.002
) -> None:
    """Wait until something is so; `pause` is the time between two looks."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(pause)


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until something is so, in a test without an event loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def longest_block(task: asyncio.Task[Any]) -> float:
    """Return the longest that the event loop was held while a task ran.

    In seconds of the processor, which do not depend on the load. To look without a pause between
    would keep a core busy.
    """
    longest = 0.0
    while not task.done():
        before = time.thread_time()
        await asyncio.sleep(0.005)
        longest = max(longest, time.thread_time() - before)
    return longest


class Clock:
    """A clock that stands still until a test moves it: `clock.now += 1`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now
