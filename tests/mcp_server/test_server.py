"""The MCP server before it can serve."""

from __future__ import annotations

import httpx2
import pytest

from sshwarma.mcp.server.server import McpServer
from sshwarma.world.errors import Unavailable
from support.mcp_server import Served


async def test_request_while_the_server_loads_is_a_json_rpc_error(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(server: McpServer) -> None:
        raise Unavailable("The MCP server is still starting.")

    monkeypatch.setattr(McpServer, "_wait_until_loaded", fail)
    async with httpx2.AsyncClient(timeout=20) as http:
        answer = await http.post(served.url, json={})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"] == {
        "code": -32000,
        "message": "The MCP server is still starting.",
    }
