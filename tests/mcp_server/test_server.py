"""The MCP server before it can serve, and after."""

from __future__ import annotations

import httpx2
import pytest

from sshwarma.mcp.server.endpoint import McpEndpoint
from sshwarma.mcp.server.server import McpServer
from sshwarma.world.errors import Unavailable
from support.mcp_server import Served


async def test_request_while_the_server_loads_is_a_json_rpc_error(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(server: McpServer) -> None:
        raise Unavailable("The MCP server is still starting.")

    monkeypatch.setattr(McpServer, "_wait_until_loaded", fail)
    async with httpx2.AsyncClient(verify=False, timeout=20) as http:
        answer = await http.post(served.url, json={})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"] == {
        "code": -32000,
        "message": "The MCP server is still starting.",
    }


async def test_request_after_the_server_stopped_is_a_json_rpc_error(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a client that connects again while the server shuts down."""
    servers: list[McpServer] = []
    wait = McpServer._wait_until_loaded

    async def remember(server: McpServer) -> McpEndpoint:
        servers.append(server)
        return await wait(server)

    monkeypatch.setattr(McpServer, "_wait_until_loaded", remember)
    headers = {"Authorization": f"Bearer {await served.newcomer('ann')}"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(verify=False, timeout=20, headers=headers) as http:
        assert (await http.post(served.url, json=request)).status_code < 500
        await servers[0].stop()
        answer = await http.post(served.url, json=request)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["message"] == "The MCP server is stopped."
