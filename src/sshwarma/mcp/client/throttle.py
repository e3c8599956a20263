"""How fast a server may talk. Whatever one says takes time that is everybody's, so that one who
never stops, by mistake or on purpose, is read at a pace and not at the speed it writes."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.limits import MAX_SERVER_MESSAGES_BURST, MAX_SERVER_MESSAGES_PER_SECOND
from sshwarma.common.rate_limit import TokenBucket

BYTES_PER_MESSAGE: Final = 4_096
"""As many bytes cost as much as a message."""

MESSAGES_PER_SLICE: Final = 50
"""After so many messages others have their turn."""


class Throttle:
    """The pace of one server."""

    def __init__(
        self, rate: float = MAX_SERVER_MESSAGES_PER_SECOND, burst: float = MAX_SERVER_MESSAGES_BURST
    ) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._taken = 0.0

    async def take(self, messages: float, size: int = 0) -> None:
        """Return when so many messages, of so many bytes in all, may be read."""
        cost = messages + size / BYTES_PER_MESSAGE
        self._taken += cost
        wait = self._bucket.take(cost)
        if wait > 0:
            await asyncio.sleep(wait)
        elif self._taken >= MESSAGES_PER_SLICE:
            self._taken = 0.0
            await asyncio.sleep(0)
