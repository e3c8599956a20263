"""Connections from a balancer, until it has said whose they are.

From an address of `ssh.proxy_from` the header of the PROXY protocol comes first. A connection
without one is closed: else the address of the balancer would stand for people.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from typing_extensions import override

from sshwarma.ssh.transport.proxy_header import MalformedHeaderError, ProxyHeader, parse_header

NO_HEADER = (
    "connections from this address must begin with a PROXY header, because it is in ssh.proxy_from;"
    " connect to the balancer, or from elsewhere"
)
"""What a client of ssh reads that connects from the machine of the balancer."""


class ProxiedDoor(Protocol):
    """What becomes of connections from a balancer."""

    def on_header(self, pending: PendingHeader, header: ProxyHeader, rest: bytes) -> None:
        """Take a connection whose header is whole; `rest` follows it."""

    def on_no_header(self, pending: PendingHeader, problem: str, *, is_ssh: bool) -> None:
        """End a connection whose header did not come or is malformed.

        `is_ssh` is whether a client of ssh speaks instead.
        """


class ProxiedConnections:
    """The connections whose header has not come yet.

    They are at most `limit`, and each waits for `seconds`. A balancer sends its header at once,
    so that the oldest is given up for a new one.
    """

    def __init__(self, door: ProxiedDoor, limit: int, seconds: float) -> None:
        self.door = door
        self.seconds = seconds
        self._limit = limit
        self._pending: dict[PendingHeader, None] = {}  # in order of arrival

    def __len__(self) -> int:
        return len(self._pending)

    def wait_for_header(self, transport: asyncio.Transport, address: str, port: int) -> None:
        """Read the header of a new connection from a balancer."""
        if len(self._pending) >= self._limit:
            next(iter(self._pending)).give_up("it did not come before too many others waited")
        pending = PendingHeader(self, transport, address, port)
        self._pending[pending] = None
        transport.set_protocol(pending)

    def remove(self, pending: PendingHeader) -> None:
        """Forget a connection that has its header, or has ended."""
        self._pending.pop(pending, None)

    def close(self) -> None:
        """Drop all of them."""
        for pending in list(self._pending):
            pending.transport.abort()


class PendingHeader(asyncio.Protocol):
    """One of them. `address` and `port` are those of the balancer."""

    def __init__(
        self, waiting: ProxiedConnections, transport: asyncio.Transport, address: str, port: int
    ) -> None:
        self.transport = transport
        self.address = address
        self.port = port
        self._waiting = waiting
        self._received = b""
        self._timer = asyncio.get_running_loop().call_later(
            waiting.seconds, self.give_up, f"it did not come within {waiting.seconds:g} s"
        )

    def give_up(self, problem: str, *, is_ssh: bool = False) -> None:
        """End the connection."""
        self._end()
        self._waiting.door.on_no_header(self, problem, is_ssh=is_ssh)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            header = parse_header(self._received)
        except MalformedHeaderError as error:
            self.give_up(str(error), is_ssh=self._received.startswith(b"SSH-"))
            return
        if header is not None:
            self._end()
            self._waiting.door.on_header(self, header, self._received[header.size :])

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        self._timer.cancel()
        self._waiting.remove(self)
