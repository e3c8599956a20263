"""Connections to the console that a client forwards: `ssh -L 2280:console:80`.

They reach this server's own HTTP server and nothing else, without the network: so a browser
elsewhere has the console where no port is open but that of ssh.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

from sshwarma.common.units import KIB
from sshwarma.ssh.door.byte_channel import ByteChannel
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.task_handler import StreamHandler
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.world.errors import Forbidden

CONSOLE: Final = ("console", 80)
"""The only name and port that are forwarded."""

_READ_BYTES: Final = 64 * KIB


class ConsoleHandler(StreamHandler):
    """One forwarded connection."""

    def __init__(
        self, context: SshContext, agent_id: str, link: ClientLink, channel: Channel
    ) -> None:
        self._stream = ByteChannel(channel)
        super().__init__(channel, self._stream)
        self._start(self._run(context, agent_id, link))

    async def _run(self, context: SshContext, agent_id: str, link: ClientLink) -> None:
        """Pass bytes both ways until one side ends, or the account does."""
        with (
            contextlib.suppress(Forbidden),
            context.world.open_requests.begin(agent_id, via=link.peer.fingerprint),
        ):
            await self._pass(context, link)

    async def _pass(self, context: SshContext, link: ClientLink) -> None:
        if context.open_console is None:
            raise RuntimeError("there is no console to connect to")
        mine, others = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=mine)
        try:
            await context.open_console(others, (link.peer.address, link.peer.port))
            up = asyncio.ensure_future(self._pass_up(writer))
            down = asyncio.ensure_future(self._pass_down(reader))
            try:
                await down  # HTTP ends what it serves, also after the end of the input
            finally:
                up.cancel()
                await asyncio.wait({up})
        finally:
            writer.close()
            self._channel.close()

    async def _pass_up(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await self._stream.read():
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def _pass_down(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_READ_BYTES):
                await self._stream.write(data)
