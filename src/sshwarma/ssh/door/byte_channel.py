"""A channel as bytes both ways: the client is held back, and waited for."""

from __future__ import annotations

from sshwarma.ssh.door.buffered_channel import BufferedChannel


class ByteChannel(BufferedChannel):
    """One channel with one reader and one writer."""

    async def read(self) -> bytes:
        """Return what has come; b"" at the end."""
        await self.wait_for_input()
        data = bytes(self._buffer)
        self._buffer.clear()
        self._update_flow_control()
        return data
