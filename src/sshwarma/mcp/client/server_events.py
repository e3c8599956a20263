"""Interface for the events of a supervised server."""

from __future__ import annotations

from typing import Protocol

from sshwarma.mcp.client.call_queue import UserPrompter
from sshwarma.mcp.client.link import ServerInfo
from sshwarma.mcp.client.sanitize import ToolListing


class SupervisorListener(UserPrompter, Protocol):
    """Receives the events of a server, and can reach people."""

    async def on_up(self, greeting: ServerInfo, listing: ToolListing) -> None:
        """Handle a new connection or a new tool listing."""

    async def on_down(self) -> None:
        """Handle the end of a connection."""

    def on_sign_in_required(self, reason: str) -> None:
        """Handle a server that requires a sign-in."""
