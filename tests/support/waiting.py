"""Waiting for what nobody announces, and a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SECONDS = 30.0
"""The longest any test waits for one thing."""


async def until(
    condition: Callable[[], object], seconds: float = SECONDS, pause: float = 0.002
) -> None:
    """Wait until something is so; `pause` is the time between two looks."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(pause)


class Clock:
    """A clock that stands still until a test moves it: `clock.now += 1`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now
