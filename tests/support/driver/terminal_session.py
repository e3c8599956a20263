"""One person's terminal over asyncssh, where stock clients would be too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncssh


class TerminalSession(asyncssh.SSHClientSession[bytes]):
    """A terminal; keeps what it was sent."""

    def __init__(self) -> None:
        self.seen = b""
        self.more = asyncio.Event()
        self.over = False

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self.seen += data
        self.more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        self.more.set()

    async def until(self, what: Callable[[bytes], object]) -> None:
        while not what(self.seen):
            assert not self.over, self.seen[-500:]
            self.more.clear()
            await self.more.wait()
