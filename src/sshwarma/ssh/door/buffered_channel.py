"""The reading half of a channel: input is buffered, and a fast client held back."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.common.units import KIB
from sshwarma.ssh.door.paced_writer import PacedWriter
from sshwarma.ssh.transport.interfaces import Channel

MAX_UNREAD_BYTES: Final = 256 * KIB
"""Unread bytes above which the client is held back: eight packets of input."""


class BufferedChannel(PacedWriter):
    """One channel with one reader, which takes from `_buffer` as it likes."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._buffer = bytearray()
        self._came = asyncio.Event()
        self._ended = False
        self._paused = False

    async def wait_for_input(self) -> None:
        """Wait until the client has sent data or ended its input."""
        while not self._buffer and not self._ended:
            await self._wait_for_more()

    async def _wait_for_more(self) -> None:
        self._came.clear()
        await self._came.wait()

    # Channel events

    def data(self, data: bytes) -> None:
        """Append input to the buffer; input after the end is dropped."""
        if self._ended:
            return
        self._buffer += data
        self._came.set()
        self._update_flow_control()

    def eof(self) -> None:
        """End the input; what came is still read."""
        self._ended = True
        self._came.set()

    def closed(self) -> None:
        """End the input, and make writers raise ConnectionError."""
        self._end_writing()
        self.eof()

    def _is_full(self) -> bool:
        """Return whether the client is to be held back."""
        return len(self._buffer) > MAX_UNREAD_BYTES

    def _update_flow_control(self) -> None:
        """Pause or resume reading; called when the buffer has changed."""
        is_full = self._is_full()
        if is_full and not self._paused and not self._ended:
            self._paused = True
            self._channel.pause_reading()
        elif self._paused and not is_full:
            self._paused = False
            self._channel.resume_reading()
