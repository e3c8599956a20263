"""Messages that are the same at every door."""

from __future__ import annotations

from typing import Final

INTERNAL_ERROR: Final = "Internal error. The server's log has the details."
"""Message for an error in the program; the log has the traceback."""

MCP_STOPPED: Final = "The MCP server is stopped."
"""Message for requests of MCP clients while the server shuts down."""


def with_limit(problem: str, limit: int | str) -> str:
    """Return a problem with the limit that was exceeded, without a full stop.

    "Too many waiting scripts (limit 16)", "The response is too large (limit 4 MiB)".
    """
    return f"{problem} (limit {limit})"
