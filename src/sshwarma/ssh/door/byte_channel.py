"""A channel as bytes both ways: the client is held back, and waited for."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.units import KIB
from sshwarma.ssh.door.paced_writer import PacedWriter
from sshwarma.ssh.transport.interfaces import Channel

MAX_UNREAD_BYTES: Final = 256 * KIB
"""Unread bytes above which the client is held back."""


class ByteChannel(PacedWriter):
    """One channel with one reader and one writer."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._buffer = bytearray()
        self._came = asyncio.Event()
        self._ended = False
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

    def closed(self) -> None:
        """End the input, and make the writer raise ConnectionError."""
        self._end_writing()
        self.eof()
