"""Bidirectional channel of lines, the transport of MCP over ssh."""

from __future__ import annotations

from typing import Protocol


class LineStream(Protocol):
    """Bidirectional channel of lines, as a door provides it."""

    async def read_line(self, limit: int) -> bytes | None:
        """Return the next line without its newline, or None at the end.

        Raises:
            ValueError: if a line is over `limit` bytes.
        """

    async def write(self, data: bytes) -> None:
        """Send bytes in order; return when the peer can take more.

        Raises:
            ConnectionError: if the peer has disconnected.
        """
