"""A channel as lines of text both ways, and the type of services that use one.

A line-based service, such as JSON-RPC, gets a `LineChannel` and reads and writes at its own pace.
The ssh window holds back a peer that sends too fast; a writer waits while the peer does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from sshwarma.common.units import KIB
from sshwarma.ssh.door.paced_writer import PacedWriter
from sshwarma.ssh.transport.interfaces import Channel
from sshwarma.world.audit import Origin

MAX_UNREAD_BYTES: Final = 256 * KIB
"""Unread bytes above which the peer is held back, unless they are all one line."""


class LineChannel(PacedWriter):
    """One channel with one reader and any number of writers."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._buffer = bytearray()
        self._searched = 0  # no newline before this
        self._came = asyncio.Event()
        self._ended = False
        self._paused = False

    async def wait_for_input(self) -> None:
        """Wait until the peer has sent data or ended its input."""
        while not self._buffer and not self._ended:
            self._came.clear()
            await self._came.wait()

    async def read_line(self, limit: int) -> bytes | None:
        """Return the next line without its newline, or None at the end of input.

        Text after the last newline counts as a line.

        Raises:
            ValueError: if a line is over `limit` bytes; the channel is then at its end.
        """
        while True:
            at = self._buffer.find(b"\n", self._searched)
            if at > limit or (at < 0 and len(self._buffer) > limit):
                self._ended = True
                self._buffer.clear()
                raise ValueError(f"a line is over {limit} bytes")
            if at >= 0:
                line = bytes(self._buffer[:at])
                del self._buffer[: at + 1]
                self._searched = 0
                self._update_flow_control()
                return line
            self._searched = len(self._buffer)
            if self._ended:
                rest = bytes(self._buffer)
                self._buffer.clear()
                self._searched = 0
                return rest or None
            self._update_flow_control()
            self._came.clear()
            await self._came.wait()

    # Channel events

    def data(self, data: bytes) -> None:
        """Append input of the peer to the buffer; input after the end is dropped."""
        if self._ended:
            return
        self._buffer += data
        self._came.set()
        self._update_flow_control()

    def eof(self) -> None:
        """End the input; `read_line` returns the buffered lines, then None."""
        self._ended = True
        self._came.set()

    def closed(self) -> None:
        """End the input, and make writers raise ConnectionError."""
        self._end_writing()
        self.eof()

    def _update_flow_control(self) -> None:
        """Pause reading while a whole line is unread and the buffer is over its limit."""
        is_full = (
            len(self._buffer) > MAX_UNREAD_BYTES and self._buffer.find(b"\n", self._searched) >= 0
        )
        if is_full and not self._paused and not self._ended:
            self._paused = True
            self._channel.pause_reading()
        elif self._paused and not is_full:
            self._paused = False
            self._channel.resume_reading()


LineService: TypeAlias = Callable[[str, Origin, LineChannel], Awaitable[None]]
"""A service, called with an agent id and a channel; it may raise world.errors.WorldError."""
