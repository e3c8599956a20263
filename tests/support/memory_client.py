"""A client of MCP that calls the tools of memories."""

from __future__ import annotations

from typing import Any

from mcp.client.client import Client

from support.mcp_server import words


class Memory:
    """A client that calls the tools of one memory."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, name: str, **arguments: Any) -> str:
        result = await self._client.call_tool(name, arguments)
        assert not result.is_error, words(result)
        return words(result)

    async def project(self, action: str, **arguments: Any) -> str:
        return await self.call(f"project_memory_{action}", **arguments)

    async def session(self, action: str, **arguments: Any) -> str:
        return await self.call(f"session_memory_{action}", **arguments)

    async def refused(self, name: str, **arguments: Any) -> str:
        result = await self._client.call_tool(name, arguments)
        assert result.is_error
        return words(result)

    async def keys(self, **arguments: Any) -> list[str]:
        return (await self.project("list_variables", **arguments)).split("\n")
