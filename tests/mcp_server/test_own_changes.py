"""A call's change to its agent's tools is notified before the call's result."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from mcp_server.test_notifications import listening
from sshwarma.mcp.server import notifications, subscription_methods
from support.mcp_server import Served, words

pytestmark = pytest.mark.filterwarnings(
    # What the older era has and the newer has not is deprecated, and tested here.
    "ignore::mcp.shared.exceptions.MCPDeprecationWarning"
)

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}
CHANGED = "notifications/tools/list_changed"

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("load_room", {"room": "holler"}),
    ("unload_room", {"room": "holler"}),
    ("use_tool", {"name": "load_room", "arguments": {"room": "holler"}}),
    ("use_tool", {"name": "unload_room", "arguments": {"room": "holler"}}),
    ("inventory_equip", {"patterns": "holler:*", "context": "me"}),
    ("inventory_unequip", {"patterns": "holler:*", "context": "me"}),
    ("join", {"room": "home"}),
]


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients here do not read the list when they are notified."""
    monkeypatch.setattr(notifications, "LIST_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(notifications, "LIST_GRACE_SECONDS", 0)


async def make_tools(served: Served) -> None:
    await served.tool("holler", "play")
    await served.equip("home", await served.tool("t", "at-home"))


async def test_own_change_is_notified_without_delay(
    served: Served, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "NOTIFICATION_SETTLE_SECONDS", 600)
    token = await served.newcomer("ann")
    await make_tools(served)
    async with listening(served, token, mode) as ears:
        for name, arguments in CALLS:
            ears.heard.clear()
            result = await ears.client.call_tool(name, arguments)
            assert not result.is_error, words(result)
            await ears.hears("tools")
            assert ears.heard == ["tools"], name
            await ears.client.call_tool("look", {})
        await ears.hears_nothing()


async def test_change_is_announced_before_the_result_over_http(served: Served) -> None:
    token = await served.newcomer("ann")
    await make_tools(served)
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
    }
    async with httpx2.AsyncClient(verify=False, headers=headers, timeout=20) as http:

        async def post(**message: Any) -> list[Any]:
            response = await http.post(served.url, json={"jsonrpc": "2.0", **message})
            session = response.headers.get("mcp-session-id")
            if session:
                http.headers["mcp-session-id"] = session
            return [
                json.loads(line.removeprefix("data:"))
                for line in response.text.splitlines()
                if line.startswith("data:") and line != "data:"
            ]

        await post(id=1, method="initialize", params=HELLO)
        http.headers["mcp-protocol-version"] = "2025-11-25"
        await post(method="notifications/initialized")
        for number, (name, arguments) in enumerate(CALLS, 2):
            params = {"name": name, "arguments": arguments}
            messages = await post(id=number, method="tools/call", params=params)
            assert [message.get("method", message.get("id")) for message in messages] == [
                CHANGED,
                number,
            ], name


async def test_result_waits_until_the_client_has_the_new_list(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Claude Code reads it over HTTP: on another connection, when it is notified."""
    monkeypatch.setattr(notifications, "LIST_TIMEOUT_SECONDS", 600)
    token = await served.newcomer("ann")
    await make_tools(served)
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
    }
    async with httpx2.AsyncClient(verify=False, headers=headers, timeout=20) as http:

        def message(number: int, method: str, **params: Any) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

        hello = await http.post(served.url, json=message(1, "initialize", **HELLO))
        http.headers["mcp-session-id"] = hello.headers["mcp-session-id"]
        http.headers["mcp-protocol-version"] = "2025-11-25"
        call = message(2, "tools/call", name="load_room", arguments={"room": "holler"})
        heard: list[str] = []
        async with http.stream("POST", served.url, json=call) as stream:
            async for line in stream.aiter_lines():
                if CHANGED in line:
                    listed = await http.post(served.url, json=message(3, "tools/list"))
                    assert "holler.play" in listed.text
                    heard.append("list")
                elif '"id":2' in line:
                    heard.append("result")
        assert heard == ["list", "result"]


async def test_slow_listener_does_not_hold_back_a_result(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(event: Any) -> None:
        await asyncio.Event().wait()

    def make_listener(connection: Any, send: Any, *more: Any) -> notifications.ChangeListener:
        return notifications.ChangeListener(connection, never, *more)

    monkeypatch.setattr(subscription_methods, "ChangeListener", make_listener)
    monkeypatch.setattr(notifications, "OWN_CHANGE_TIMEOUT_SECONDS", 0.1)
    token = await served.newcomer("ann")
    await make_tools(served)
    async with listening(served, token, "auto") as ears, asyncio.timeout(10):
        result = await ears.client.call_tool("load_room", {"room": "holler"})
        assert not result.is_error
        assert ears.heard == []
