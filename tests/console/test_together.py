"""Two browsers, a terminal and an MCP client in one room."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.sync_api import expect

from console.test_for_everybody import DESK, PHONE
from console.test_room import say
from support.console_tabs import Tabs
from support.driver import Person, Server


def run(work: Coroutine[Any, Any, str]) -> str:
    """Run a coroutine beside the loop of the browser."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result(60)


async def call(server: Server, token: str, tool: str, arguments: dict[str, str]) -> str:
    """Call a tool of the world as an MCP client."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"http://{server.http}/mcp", http_client=http)) as client,
    ):
        result = await client.call_tool(tool, arguments)
        return str(result.content)


def test_everybody_sees_the_same_room(
    world: Server, alice: Person, bob: Person, room: str, tabs: Tabs
) -> None:
    agent = world.person(f"agent-{room}")
    agent.does(f"join {room}")
    token = agent.json("token new robot --scope build")["token"]
    first = tabs(alice, f"/room/{room}", viewport=DESK)
    second = tabs(bob, f"/room/{room}/memory?scope=session", viewport=DESK)
    terminal = alice.sit(room=room)
    first.locator("#here", has_text=bob.name).wait_for()

    run(call(world, token, "say", {"text": "hello from an agent"}))
    for page in (first, second):
        page.locator("#log", has_text="hello from an agent").wait_for()
    terminal.wait_for("hello from an agent")

    arguments = {"key": "plan", "value": "ship"}
    alice.does(f"equip room memory:* --room {room}")
    run(call(world, token, "session_memory_set_variable", arguments))
    expect(second.locator("#memory-count")).to_have_text("1 key")
    say(first, "hello from a desk")
    second.locator("#log", has_text="hello from a desk").wait_for()
    terminal.type("hello from a terminal\r")
    second.locator("#log", has_text="hello from a terminal").wait_for()
    agent.hang_up()
    phone = tabs(bob, f"/room/{room}", viewport=PHONE)
    for text in ("an agent", "a desk", "a terminal"):
        assert phone.locator("#log", has_text=f"hello from {text}").is_visible()
