"""The writing half of a channel: writers wait while the client does not read."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.units import KIB
from sshwarma.ssh.transport.interfaces import Channel

WRITE_CHUNK_BYTES: Final = 16 * KIB
"""Bytes per write: much less than the channel may buffer."""


class PacedWriter:
    """Writes to one channel, for any number of writers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._writable = asyncio.Event()
        self._writable.set()
        self._writing = asyncio.Lock()
        self._gone = False

    async def write(self, data: bytes) -> None:
        """Write bytes without interleaving other writers; wait until sent or buffered.

        Raises:
            ConnectionError: if the channel is closed.
        """
        async with self._writing:
            for start in range(0, len(data), WRITE_CHUNK_BYTES):
                await self._writable.wait()
                if self._gone:
                    raise ConnectionError("the channel is closed")
                self._channel.write(data[start : start + WRITE_CHUNK_BYTES])

    def pause(self) -> None:
        """Make writers wait: the client does not read."""
        self._writable.clear()

    def resume(self) -> None:
        """Let writers continue."""
        self._writable.set()

    def _end_writing(self) -> None:
        """Make writers raise ConnectionError: the channel is closed."""
        self._gone = True
        self._writable.set()
