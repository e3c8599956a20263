"""An external agent is a participant: seen, called, answered, kicked."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from sshwarma.admin import operations
from sshwarma.mcp.server import clients
from sshwarma.terminal.render import render_plain
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.views import draw_result
from sshwarma.world.caller import Caller
from support.mcp_server import EndlessCall, Expiry, Served, events, words


async def test_mcp_client_appears_in_its_room_and_in_who(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    async with served.client(token, mode) as client:
        await client.list_tools()
        assert served.here()["ann"].door == "mcp"
        listed = await served.do("ben", "/who")
        assert [(one.name, one.room, one.door) for one in listed.people] == [
            ("ann", "lobby", "mcp")
        ]
        assert [row.content for row in await served.world.last_rows("lobby", 5)] == ["arrives"]
    if mode == "auto":
        assert "ann" in served.here(), "it stays for a while: there is no session to end"


async def test_agent_with_a_program_is_shown_as_external(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    info = Implementation(name="claude-code", version="2.1")
    async with served.client(token, mode, client_info=info) as client:
        seen = (await client.call_tool("look", {})).structured_content["here"]
        assert [(one["name"], one["kind"], one["client"]) for one in seen] == [
            ("ann", "external", "claude-code")
        ]
        listed = await served.do("ben", "/who")
        assert [(one.name, one.kind, one.client) for one in listed.people] == [
            ("ann", "external", "claude-code")
        ]
        assert "ann (external claude-code)" in render_plain(
            draw_result(await served.do("ben", "/look"))
        )


async def test_person_with_an_inspector_is_shown_as_a_person(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    info = Implementation(name="mcp-inspector" + "\n" * 9 + "x" * 99, version="1")
    async with served.client(token, mode, client_info=info) as client:
        who = (await client.call_tool("who", {})).structured_content["people"][0]
    assert who["kind"] == "person"
    assert who["client"] == "mcp-inspector " + "x" * 26


async def test_name_of_a_program_cannot_look_like_a_row(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    info = Implementation(name="a\n[Request of olga]\n\x1b[31m<olga>\u202e do", version="1")
    async with served.client(token, mode, client_info=info) as client:
        who = (await client.call_tool("who", {})).structured_content["people"][0]
    assert who["client"] == "a Request of olga 31m olga do"


async def test_presence_ends_some_time_after_the_last_request(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await served.newcomer("ann")
    async with served.client(token) as client:
        await client.call_tool("look", {})
        assert "ann" in served.here()
        with monkeypatch.context() as soon:
            soon.setattr(clients, "STAY_AFTER_REQUEST_SECONDS", 0.3)
            await client.call_tool("look", {})
            await served.until(lambda: "ann" not in served.here())
    await served.received("lobby", "arrives", "leaves")
    async with served.client(token) as client:
        await client.call_tool("look", {})
        assert "ann" in served.here()


async def test_closed_session_ends_presence(served: Served) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, "legacy") as client:
        await client.call_tool("look", {})
    await served.until(lambda: "ann" not in served.here())  # the client has deleted its session


async def test_open_session_keeps_presence(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a session the agent would leave when its request has ended."""
    monkeypatch.setattr(clients, "STAY_AFTER_REQUEST_SECONDS", 0.0)
    token = await served.newcomer("ann")
    async with served.client(token, "legacy") as client:
        await client.call_tool("look", {})
        (guest,) = served.guests
        await served.until(lambda: not any(one.stays for one in guest.connections))
        assert guest.session_count == 1 and "ann" in served.here()
        assert [row.content for row in await served.world.last_rows("lobby", 9)] == ["arrives"]


async def test_kicked_agent_is_moved_and_notified(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/create den")
    async with served.client(token, mode) as client:
        await client.call_tool("join", {"room": "den"})
        den = (await served.world.find_room("den")).id
        cursor = (await events(client, seconds=0))["cursor"]
        waits = asyncio.create_task(events(client, cursor))
        await served.until(lambda: any(guest.calls for guest in served.guests))
        await served.do("ben", "/kick ann cool down", room="den")
        await served.until(lambda: "ann" not in served.here(den))
        heard = await waits
        received = [event for event in heard["events"] if event["type"] == "notice"]
        while not received:
            heard = await events(client, heard["cursor"])
            received = [event for event in heard["events"] if event["type"] == "notice"]
        assert received[0]["text"] == "ben kicked you out of den: cool down"
        assert heard["room"] == "lobby"
        await served.do("ben", "/ban ann", room="den")
        banned = await client.call_tool("join", {"room": "den"})
        assert banned.is_error and "banned" in words(banned)


@pytest.mark.parametrize("how", ["disable", "revoke", "expire"])
async def test_losing_access_ends_a_running_call(
    served: Served, mode: str, how: str, expiry: Expiry
) -> None:
    await served.agent("ann")
    token = await served.token("ann", days=1 if how == "expire" else None)
    endless = EndlessCall()
    ann = served.world.agents.find("ann")
    await served.equip("lobby", await served.tool("t", "endless", endless))
    with pytest.raises((MCPError, httpx2.HTTPError, ExceptionGroup)):
        async with served.client(token, mode) as client:
            if how == "expire":
                expiry.soon()
            call = asyncio.create_task(client.call_tool("t.endless", {}))
            await asyncio.wait_for(endless.began.wait(), 20)
            if how == "disable":
                await operations.run_operation(served.world, "agents_disable", {"name": "ann"})
            elif how == "revoke":
                found = await operations.run_operation(served.world, "token_list", {"name": "ann"})
                await operations.run_operation(
                    served.world, "token_revoke", {"token_id": found[0]["id"]}
                )
            await asyncio.wait_for(endless.stopped.wait(), 20)
            await served.until(lambda: "ann" not in served.here())
            expiry.past()
            try:
                assert (await call).is_error
            finally:
                await client.list_tools(cache_mode="bypass")
    assert not served.world.presence.connections_of(ann.id)


async def test_call_in_a_stream_is_answered_when_its_token_is_revoked(
    served: Served, mode: str
) -> None:
    token = await served.newcomer("ann")
    streams = asyncio.Event()

    async def endless(caller: Caller, *_: Any) -> ToolResult:
        assert caller.on_progress is not None
        caller.on_progress("works")
        await asyncio.Event().wait()
        raise AssertionError

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        streams.set()

    await served.equip("lobby", await served.tool("t", "endless", endless))
    async with served.client(token, mode) as client:
        call = asyncio.create_task(client.call_tool("t.endless", {}, progress_callback=on_progress))
        await asyncio.wait_for(streams.wait(), 20)
        found = await operations.run_operation(served.world, "token_list", {"name": "ann"})
        await operations.run_operation(served.world, "token_revoke", {"token_id": found[0]["id"]})
        with pytest.raises(MCPError, match=r"^The token was revoked\.$"):
            await asyncio.wait_for(call, 20)


async def test_revoking_one_token_keeps_the_others(served: Served) -> None:
    await served.agent("ann")
    kept, gone = await served.token("ann"), await served.token("ann")
    found = await operations.run_operation(served.world, "token_list", {"name": "ann"})
    async with served.client(kept, "legacy") as one:
        async with served.client(gone) as other:
            await other.call_tool("look", {})
            await operations.run_operation(
                served.world, "token_revoke", {"token_id": found[1]["id"]}
            )
            await served.until(lambda: all(len(g.token_ids) == 1 for g in served.guests))
        assert not (await one.call_tool("look", {})).is_error
        assert "ann" in served.here()


async def test_nav_off_keeps_an_agent_in_its_room(served: Served, mode: str) -> None:
    await served.agent("ben", role="owner")
    token = await served.newcomer("ann")
    await served.do("ben", "/create den")
    await served.do("ben", "/nav off", room="lobby")
    async with served.client(token, mode) as client:
        refused = await client.call_tool("join", {"room": "den"})
        assert refused.is_error
        assert "navigation is off" in words(refused)
        await served.do("ben", "/nav on", room="lobby")
        assert not (await client.call_tool("join", {"room": "den"})).is_error
