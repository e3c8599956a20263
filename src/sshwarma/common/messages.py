"""Messages that are the same at every door."""

from __future__ import annotations

from typing import Final

INTERNAL_ERROR: Final = "Internal error. The server's log has the details."
"""Message for an error in the program; the log has the traceback."""

MCP_STOPPED: Final = "The MCP server is stopped."
"""Message for requests of MCP clients while the server shuts down."""
