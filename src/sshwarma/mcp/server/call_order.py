"""Order of an agent's calls to verbs that change something.

A model often sends several calls at once: load a namespace, and use one of its tools. They arrive
as separate requests that run at the same time, so a call waits for those before it that change
what it can see.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallOrder:
    """The running calls of one agent for which later ones wait."""

    def __init__(self) -> None:
        self._changing: dict[asyncio.Event, None] = {}

    @asynccontextmanager
    async def wait_for_earlier(self, *, changes: bool) -> AsyncIterator[None]:
        """Run the body after all earlier calls that change something have ended.

        Args:
            changes: whether later calls wait for this one.
        """
        earlier = list(self._changing)
        ended = asyncio.Event()
        if changes:
            self._changing[ended] = None
        try:
            for call_ended in earlier:
                await call_ended.wait()
            yield
        finally:
            self._changing.pop(ended, None)
            ended.set()
