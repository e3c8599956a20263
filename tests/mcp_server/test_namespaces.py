"""Namespaces over MCP: asked for, found, loaded; then their tools and no others.

This holds in both eras and by both ways in.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp_types import ToolListChangedNotification

from mcp_server.test_over_ssh import over_ssh
from sshwarma.tools.provider import ToolResult
from support.driver import Person
from support.mcp_server import Served, words

SPACES = {
    "requirement": ("list", "create", "update", "delete"),
    "requirement.traceability": ("link", "unlink", "trace", "matrix"),
    "git": ("status", "commit", "push"),
    "deploy": ("run",),
}


async def names(client: Client) -> set[str]:
    """The tools that are listed, without those that are always there."""
    listed = (await client.list_tools(cache_mode="bypass")).tools
    return {tool.name for tool in listed if tool.name.partition(".")[0] in SPACES or
            tool.name.startswith("requirement.")}  # fmt: skip


@pytest.fixture
async def done(served: Served) -> list[str]:
    """A world with those namespaces; the tools that were carried out."""
    calls: list[str] = []

    def run(_: Any, tool: Any, arguments: dict[str, Any]) -> ToolResult:
        calls.append(tool.label)
        return ToolResult("done")

    await served.agent("root", role="owner")
    for space, tools in SPACES.items():
        for name in tools:
            await served.spaced(space, name, run)
    await served.do("root", "/namespace set deploy required_states ci-configured")
    await served.do("root", "/namespace set requirement title Requirements")
    await served.do("root", "/namespace set requirement keywords requirement,req,spec")
    return calls


async def test_client_loads_a_namespace_and_sees_its_tools(
    served: Served, done: list[str], mode: str
) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        listed = (await client.list_tools(cache_mode="bypass")).tools
        assert {"load_room", "unload_room", "list_rooms", "find_rooms"} <= {t.name for t in listed}
        assert {"global.help", "global.version", "global.search"} <= {t.name for t in listed}
        assert await names(client) == set()
        rooms = {str(one.uri): one for one in (await client.list_resources()).resources}
        assert rooms["room://requirement"].name == "Requirements"
        assert all(f"room://{space}" in rooms for space in SPACES)
        assert all(rooms[f"room://{space}"].description for space in SPACES)
        meta = rooms["room://deploy"].meta or {}
        assert (meta["available"], meta["missing"]) == (False, ["ci-configured"])

        loaded = await client.call_tool("load_room", {"room": "requirement"})
        assert not loaded.is_error
        assert "requirement" in words(loaded)
        assert await names(client) == {f"requirement.{name}" for name in SPACES["requirement"]}
        for tool in (await client.list_tools(cache_mode="bypass")).tools:
            assert tool.description
            assert tool.input_schema["type"] == "object"
        assert words(await client.call_tool("requirement.create", {})) == "done"
        assert done == ["requirement:create"]

        both = await client.call_tool(
            "load_room", {"room": "requirement", "include_children": True}
        )
        assert not both.is_error
        assert "requirement.traceability.matrix" in await names(client)
        await client.call_tool("unload_room", {"room": "requirement"})
        await client.call_tool("unload_room", {"room": "requirement.traceability"})
        assert await names(client) == set()


async def test_failed_load_is_an_error_result(served: Served, done: list[str], mode: str) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        unknown = await client.call_tool("load_room", {"room": "nowhere"})
        assert unknown.is_error
        assert "Unknown namespace nowhere" in words(unknown)
        nothing = await client.call_tool("load_room", {})
        assert nothing.is_error
        assert "room" in words(nothing)
        lacking = await client.call_tool("load_room", {"room": "deploy"})
        assert lacking.is_error
        assert "ci-configured" in words(lacking)
        early = await client.call_tool("git.commit", {})
        assert early.is_error
        assert 'load_room {"room": "git"} loads its namespace' in words(early)
        kept = await client.call_tool("unload_room", {"room": "global"})
        assert not kept.is_error
        assert "always loaded" in words(kept)
        assert await names(client) == set()
    assert done == []


async def test_find_rooms_finds_a_namespace_by_description(
    served: Served, done: list[str], mode: str
) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        wanted = "I want to create a new requirement"
        found = await client.call_tool("find_rooms", {"query": wanted})
        assert (found.structured_content or {})["found"][0]["id"] == "requirement"
        every = await client.call_tool("list_rooms", {})
        listed = {one["id"]: one for one in (every.structured_content or {})["namespaces"]}
        assert listed["git"]["tools"] == 3
        assert not (await client.call_tool("find_rooms", {"query": ""})).is_error


async def test_load_notifies_only_that_client(served: Served, done: list[str]) -> None:
    ann, ben = await served.newcomer("ann"), await served.newcomer("ben")
    heard: dict[str, asyncio.Event] = {"ann": asyncio.Event(), "ben": asyncio.Event()}

    def ears(name: str) -> Any:
        async def hear(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                heard[name].set()

        return hear

    async with (
        served.client(ann, "legacy", message_handler=ears("ann")) as hers,
        served.client(ben, "legacy", message_handler=ears("ben")) as his,
    ):
        await hers.list_tools()
        await his.list_tools()
        await hers.call_tool("load_room", {"room": "git"})
        await asyncio.wait_for(heard["ann"].wait(), 20)
        assert await names(hers) == {"git.status", "git.commit", "git.push"}
        assert await names(his) == set()
    assert not heard["ben"].is_set()
    async with served.client(ann, "auto") as again:  # loads are the agent's, not the connection's
        assert "git.commit" in await names(again)


async def test_namespace_is_loaded_over_ssh(alice: Person, room: str, mode: str) -> None:
    space = f"kit-{room.rpartition('-')[2]}"
    alice.does(f"tool new {space}:hammer = return 'bang'")
    async with over_ssh(alice, mode) as client:
        listed = {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
        assert f"{space}.hammer" not in listed
        uris = {str(one.uri) for one in (await client.list_resources()).resources}
        assert f"room://{space}" in uris
        await client.call_tool("load_room", {"room": space})
        listed = {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
        assert f"{space}.hammer" in listed
        assert words(await client.call_tool(f"{space}.hammer", {})) == "bang"
        await client.call_tool("unload_room", {"room": space})
    assert alice.json("inv")["equipped"]


async def test_mcp_http_and_terminal_list_the_same_tools(
    served: Served, done: list[str], mode: str
) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        await client.call_tool("load_room", {"room": "git"})
        listed = {t.name for t in (await client.list_tools(cache_mode="bypass")).tools}
    typed = await served.do("ann", "/inv")
    async with httpx2.AsyncClient(
        verify=False, headers={"Authorization": f"Bearer {token}"}, timeout=20
    ) as http:
        url = served.url.replace("/mcp", "/api/v1/verbs/inv_show")
        asked = (await http.post(url, json={})).json()["result"]
    over_http = {item["name"] for item in asked["equipped"] if item["kind"] == "tool"}
    assert {item.name for item in typed.equipped if item.kind == "tool"} == over_http
    bare = {name for name in listed if "." not in name} | {"inventory"}
    dotted = {name.replace(":", ".") for name in over_http}
    assert {name for name in listed if "." in name} == {
        name for name in dotted if name.partition(".")[2] not in bare
    }
    assert {"load_room", "unload_room", "list_rooms", "find_rooms"} <= listed
