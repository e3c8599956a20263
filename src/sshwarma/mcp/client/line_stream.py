"""A channel of lines: what MCP is spoken over where it is neither HTTP nor a program of ours."""

from __future__ import annotations

from typing import Protocol


class LineStream(Protocol):
    """A channel of lines, either way, as a door that has one hands it over."""

    async def read_line(self, limit: int) -> bytes | None:
        """The next line, without its newline; None when no more will come.

        Raises:
            ValueError: if a line is over `limit` bytes.
        """

    async def write(self, data: bytes) -> None:
        """Send bytes, in order; returns when the other side has room for more.

        Raises:
            ConnectionError: if the other side is gone.
        """
