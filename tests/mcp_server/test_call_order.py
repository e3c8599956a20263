"""Calls that a client sends at once have the results of calls one after another."""

from __future__ import annotations

import asyncio
import json
import re

from mcp_server.test_over_ssh import HELLO, READY, call, lines
from sshwarma.mcp.server.call_order import CallOrder
from sshwarma.tools.provider import ToolResult
from support.driver import Person
from support.mcp_server import EndlessCall, Served, words


async def test_use_of_a_tool_waits_for_the_load_before_it(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.tool("holler", "play", lambda *_: ToolResult("played"))
    async with served.client(token, mode) as client:
        (ann,) = served.guests
        async with ann.call_order.wait_for_earlier(changes=True):
            use = asyncio.create_task(client.call_tool("use_tool", {"name": "holler.play"}))
            await served.until(lambda: any(link.stays for link in ann.connections))
            await served.do("ann", "/load holler me")
            assert not use.done()
        assert words(await use) == "played"


def test_messages_over_ssh_are_said_in_order_and_where_they_were_sent(
    alice: Person, room: str
) -> None:
    there = f"{room}-2"
    alice.does(f"create {there}", f"join {room}", f"portal out {there}")
    calls = [
        *(call(20 + number, "say", text=text) for number, text in enumerate("abc")),
        call(30, "sshwarma.go", direction="out"),
        *(call(40 + number, "say", text=text) for number, text in enumerate("def")),
        call(50, "join", room=room),
        *(call(60 + number, "say", text=text) for number, text in enumerate("ghi")),
    ]
    done = alice.run("mcp", lines(HELLO, READY, *calls))
    received = [json.loads(line) for line in done.lines]
    answers = {one["id"]: one["result"] for one in received if "id" in one}
    assert not [answers[one["id"]] for one in calls if answers[one["id"]].get("isError")]
    said = {name: alice.does(f"history 50 --room {name}") for name in (room, there)}
    letters = {
        name: re.findall(rf"{alice.name}: ([a-i])$", text, re.M) for name, text in said.items()
    }
    assert letters == {room: ["a", "b", "c", "g", "h", "i"], there: ["d", "e", "f"]}


async def test_call_does_not_wait_for_a_slow_tool(served: Served) -> None:
    token = await served.newcomer("ann")
    slow = EndlessCall()
    await served.equip("lobby", await served.tool("t", "slow", slow))
    async with served.client(token) as client:
        running = asyncio.create_task(client.call_tool("t.slow", {}))
        await slow.began.wait()
        assert not (await client.call_tool("join", {"room": "home"})).is_error
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_failed_or_cancelled_call_lets_later_ones_run() -> None:
    order = CallOrder()
    entered = asyncio.Event()

    async def hold() -> None:
        async with order.wait_for_earlier(changes=True):
            entered.set()
            await asyncio.Event().wait()

    first = asyncio.create_task(hold())
    await entered.wait()
    second = asyncio.create_task(hold())  # waits
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    async with asyncio.timeout(5), order.wait_for_earlier(changes=False):
        pass
