"""The bytes of one client of sftp, at the pace at which it reads answers."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncssh
from asyncssh.logging import SSHLogger
from asyncssh.logging import logger as asyncssh_logger

from sshwarma.common.units import KIB, MIB
from sshwarma.ssh.transport._asyncssh import AsyncsshChannel
from sshwarma.ssh.transport.interfaces import Channel

MAX_PACKET_BYTES: Final = 256 * KIB
"""Bytes of one packet: a transfer and its head."""

WINDOW_BYTES: Final = 2 * MIB
"""Bytes that a client may send ahead: with the window of a terminal, a copy waits for half its time
until there is room."""

LENGTH_BYTES: Final = 4
"""Bytes of the length that a packet begins with."""

PAUSE_BYTES: Final = 2 * MAX_PACKET_BYTES
"""Input that waits above which the client is held back; a packet always fits."""


class SftpStream:
    """The bytes of one client of sftp: reader and writer of asyncssh's handler.

    No request is read before the client has read the answers to those before.
    """

    def __init__(self, channel: Channel) -> None:
        self._output = channel
        if isinstance(channel, AsyncsshChannel):  # no terminal, nor a fake of a test
            channel.widen_window(WINDOW_BYTES)
        self._buffer = bytearray()
        self._changed = asyncio.Event()
        self._ended = False
        self._writable = True
        self._paused = False

    # From the handler of the channel

    def data(self, data: bytes) -> None:
        """Take input."""
        self._buffer += data
        if len(self._buffer) > PAUSE_BYTES and not self._paused:
            self._paused = True
            self._output.pause_reading()
        self._changed.set()

    def end(self) -> None:
        """Take note that there is no more input; what came is still read."""
        self._ended = True
        self._changed.set()

    def drop(self) -> None:
        """Stop reading: the channel is closed."""
        self._buffer.clear()
        self._writable = True
        self.end()

    def pause(self) -> None:
        """Read no requests until the client has read answers."""
        self._writable = False

    def resume(self) -> None:
        """Read requests again."""
        self._writable = True
        self._changed.set()

    # What asyncssh's handler uses

    @property
    def logger(self) -> SSHLogger:
        """The log of asyncssh."""
        return asyncssh_logger

    @property
    def channel(self) -> SftpStream:
        """The stream itself, which says whether it is closing."""
        return self

    def is_closing(self) -> bool:
        """Return that answers are always written; a closed channel ignores them."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the default: nothing depends on the client's version."""
        return default

    def write(self, data: bytes) -> None:
        """Send an answer."""
        self._output.write(data)

    async def readexactly(self, size: int) -> bytes:
        """Return that many bytes of input.

        Raises:
            EOFError: if it ends before.
            SFTPBadMessage: if they are more than a packet may have.
        """
        if size > MAX_PACKET_BYTES:
            raise asyncssh.SFTPBadMessage(f"a packet has at most {MAX_PACKET_BYTES} bytes")
        if size == LENGTH_BYTES:
            await asyncio.sleep(0)  # other connections have their turn between two requests
        while not self._writable or len(self._buffer) < size:
            if self._ended and self._writable:
                raise EOFError
            self._changed.clear()
            await self._changed.wait()
        with memoryview(self._buffer) as view:
            taken = bytes(view[:size])
        del self._buffer[:size]
        if self._paused and len(self._buffer) <= MAX_PACKET_BYTES:
            self._paused = False
            self._output.resume_reading()
        return taken
