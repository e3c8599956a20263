"""Refusal of a new connection with a reason that its client shows.

A line before the version would be shown by OpenSSH only with -v, and a socket that is closed while
the client's first bytes are unread is reset, which may lose what was written. So the refusal is our
version and an SSH_MSG_DISCONNECT, which may come before the key exchange (RFC 4253, 11.1), and the
socket is closed when the client has closed its end.
"""

from __future__ import annotations

import asyncio
from typing import Final

from asyncssh import DISC_TOO_MANY_CONNECTIONS
from asyncssh.constants import MSG_DISCONNECT
from asyncssh.packet import Byte, String, UInt32
from typing_extensions import override

from sshwarma.common.units import KIB

VERSION: Final = "sshwarma"
"""What the server calls itself in its version line."""

MAX_REFUSED_OPEN = 50
"""Refused connections that wait for their client to close; more are closed at once."""

REFUSAL_SECONDS = 1.0
"""Time a client has to read its refusal and close."""

MAX_REFUSED_INPUT_BYTES = 64 * KIB
"""Input of a refused client that is read and dropped; its version and first packet are 2 KiB."""


def encode_refusal(sentence: str) -> bytes:
    """Return our version line and a disconnect message with a reason, not encrypted."""
    payload = b"".join(
        (
            *(Byte(MSG_DISCONNECT), UInt32(DISC_TOO_MANY_CONNECTIONS)),
            *(String(sentence), String("en")),
        )
    )
    # RFC 4253, 6: at least 4 bytes of padding, to whole blocks of 8 with the length.
    padding = 8 - (5 + len(payload)) % 8
    if padding < 4:
        padding += 8
    packet = b"".join((Byte(padding), payload, bytes(padding)))
    return b"".join((f"SSH-2.0-{VERSION}\r\n".encode(), UInt32(len(packet)), packet))


class RefusedConnections:
    """The connections that read why they were refused, or a greeting alone."""

    def __init__(self) -> None:
        self._open: set[RefusedConnection] = set()

    def refuse(self, transport: asyncio.Transport, sentence: str) -> None:
        """Send the reason; close the connection within `REFUSAL_SECONDS`."""
        self._end_with(transport, encode_refusal(sentence))

    def greet(self, transport: asyncio.Transport) -> None:
        """Send our version line to who checks that the server answers; then as `refuse`."""
        self._end_with(transport, f"SSH-2.0-{VERSION}\r\n".encode())

    def _end_with(self, transport: asyncio.Transport, farewell: bytes) -> None:
        transport.write(farewell)
        if len(self._open) >= MAX_REFUSED_OPEN:
            transport.close()
            return
        refused = RefusedConnection(transport, self._open)
        self._open.add(refused)
        transport.set_protocol(refused)
        transport.write_eof()

    def close(self) -> None:
        """Drop all of them."""
        for refused in list(self._open):
            refused.abort()


class RefusedConnection(asyncio.Protocol):
    """One of them, until its client closes it. `open_ones` has it as long."""

    def __init__(self, transport: asyncio.Transport, open_ones: set[RefusedConnection]) -> None:
        self._transport = transport
        self._open_ones = open_ones
        self._left = MAX_REFUSED_INPUT_BYTES
        self._timer = asyncio.get_running_loop().call_later(REFUSAL_SECONDS, self.abort)

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._open_ones.discard(self)
