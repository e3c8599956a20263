"""Throttle of the messages read from one server.

Each message takes time of the shared event loop, so a server that never stops writing, by mistake
or on purpose, is read at a limited rate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from sshwarma.common.limits import MAX_SERVER_MESSAGES_BURST, MAX_SERVER_MESSAGES_PER_SECOND
from sshwarma.common.rate_limit import Clock, TokenBucket

BYTES_PER_MESSAGE: Final = 4_096
"""Bytes that cost as much as one message."""

MESSAGES_PER_SLICE: Final = 50
"""Messages after which the reader yields to the event loop."""


class Throttle:
    """Token bucket for the messages of one server."""

    def __init__(
        self,
        rate: float = MAX_SERVER_MESSAGES_PER_SECOND,
        burst: float = MAX_SERVER_MESSAGES_BURST,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._bucket = TokenBucket(rate, burst, clock)
        self._sleep = sleep
        self._taken = 0.0

    async def acquire(self, messages: float, size: int = 0) -> None:
        """Wait until `messages` messages of `size` bytes in total may be read."""
        cost = messages + size / BYTES_PER_MESSAGE
        self._taken += cost
        wait = self._bucket.take(cost)
        if wait > 0:
            await self._sleep(wait)
        elif self._taken >= MESSAGES_PER_SLICE:
            self._taken = 0.0
            await self._sleep(0)
