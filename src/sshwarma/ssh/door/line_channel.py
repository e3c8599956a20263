"""A channel as lines of text both ways, and the type of services that use one.

A line-based service, such as JSON-RPC, gets a `LineChannel` and reads and writes at its own pace.
The ssh window holds back a peer that sends too fast; a writer waits while the peer does not read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from typing_extensions import override

from sshwarma.ssh.door.buffered_channel import BufferedChannel
from sshwarma.ssh.transport.interfaces import Channel
from sshwarma.world.audit import Origin


class LineChannel(BufferedChannel):
    """One channel with one reader and any number of writers."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._searched = 0  # no newline before this

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
            await self._wait_for_more()

    @override
    def _is_full(self) -> bool:
        """Return whether a whole line is unread: one longer than the buffer must come in."""
        return super()._is_full() and self._buffer.find(b"\n", self._searched) >= 0


LineService: TypeAlias = Callable[[str, Origin, LineChannel], Awaitable[None]]
"""A service, called with an agent id and a channel; it may raise world.errors.WorldError."""
