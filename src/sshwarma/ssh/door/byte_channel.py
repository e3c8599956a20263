"""A channel as bytes both ways: the client is held back, and waited for."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.units import KIB
from sshwarma.ssh.door.line_channel import WRITE_CHUNK_BYTES
from sshwarma.ssh.transport.interfaces import Channel

MAX_UNREAD_BYTES: Final = 256 * KIB
"""Unread bytes above which the client is held back."""


class ByteChannel:
    """One channel with one reader and one writer."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._buffer = bytearray()
        self._came = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False
        self._gone = False
        self._paused = False

    async def read(self) -> bytes:
        """Return what has come; b"" at the end."""
        while not self._buffer and not self._ended:
            self._came.clear()
            await self._came.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        if self._paused:
            self._paused = False
            self._channel.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, as fast as the client reads.

        Raises:
            ConnectionError: if the channel is closed.
        """
        for start in range(0, len(data), WRITE_CHUNK_BYTES):
            await self._writable.wait()
            if self._gone:
                raise ConnectionError("the channel is closed")
            self._channel.write(data[start : start + WRITE_CHUNK_BYTES])

    # Channel events

    def data(self, data: bytes) -> None:
        """Take input."""
        self._buffer += data
        self._came.set()
        if len(self._buffer) > MAX_UNREAD_BYTES and not self._paused:
            self._paused = True
            self._channel.pause_reading()

    def eof(self) -> None:
        """Take note that the input has ended; what came is still read."""
        self._ended = True
        self._came.set()

    def pause(self) -> None:
        """Make the writer wait: the client does not read."""
        self._writable.clear()

    def resume(self) -> None:
        """Let the writer continue."""
        self._writable.set()

    def closed(self) -> None:
        """End the input, and make the writer raise ConnectionError."""
        self._gone = True
        self._writable.set()
        self.eof()
