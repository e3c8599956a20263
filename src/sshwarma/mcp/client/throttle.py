"""How fast a server may talk. Whatever one says takes time that is everybody's, so that one who
never stops, by mistake or on purpose, is read at a pace and not at the speed it writes."""

from __future__ import annotations

import asyncio
import time
from typing import Final

RATE: Final = 2_000
"""Messages a second that are read of one server, once it has said BURST."""

BURST: Final = 10_000
"""Messages that are read as fast as they come."""

BYTES: Final = 4_096
"""As many bytes cost as much as a message."""

AT_ONCE: Final = 50
"""After so many messages others have their turn."""


class Flow:
    """The pace of one server."""

    def __init__(self, rate: float = RATE, burst: float = BURST) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at = time.monotonic()
        self._taken = 0.0

    async def take(self, messages: float, size: int = 0) -> None:
        """Return when so many messages, of so many bytes in all, may be read."""
        cost = messages + size / BYTES
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - cost
        self._at = now
        self._taken += cost
        if self._left < 0:
            await asyncio.sleep(-self._left / self._rate)
        elif self._taken >= AT_ONCE:
            self._taken = 0.0
            await asyncio.sleep(0)
