"""Toolsets over MCP: imported, used and uninstalled by an agent."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving() as server:
        yield server
        server.owner.hang_up()


@asynccontextmanager
async def client_of(house: Server, person: Person) -> AsyncIterator[Client]:
    token = person.json("token new agent --scope build")["token"]
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"http://{house.http}/mcp", http_client=http)) as client,
    ):
        yield client


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


async def use(client: Client, tool: str, **arguments: Any) -> Any:
    return await client.call_tool(tool, arguments)


async def test_admin_imports_a_toolset_by_its_agent(house: Server) -> None:
    ann = house.person("ann", role="admin")
    archive = base64.b64encode(pack(kit("kit", functions=("ask", "paint")))).decode()
    async with client_of(house, ann) as client:
        await use(client, "load_room", room="toolsets")
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"toolsets.import_toolset", "toolsets.uninstall_toolset"} <= names
        refused = await use(client, "toolsets.import_toolset", archive="%%%", encoded=True)
        assert refused.is_error and "archive" in text_of(refused)
        done = await use(client, "toolsets.import_toolset", archive=archive, encoded=True)
        assert text_of(done) == (
            "Installed kit 1.0: Kit, 2 tools.\n"
            'inventory_equip {"context": "room", "patterns": "kit:*"} equips its tools in a room.'
        ), done
        assert archive[:40] not in house.owner.run("history 50 --json").out
        shown = ann.json("toolset show kit")["toolset"]
        assert (shown["installed_by"], shown["installed_over"]) == ("ann", "MCP")
        refused = await use(
            client, "toolsets.import_toolset", archive=archive, encoded=True, packages=True
        )
        assert refused.is_error and "Only a person can allow" in text_of(refused)
        shown = await use(client, "toolsets.get_toolset", name="kit")
        assert shown.structured_content["toolset"]["version"] == "1.0"
        exported = await use(client, "toolsets.export_toolset", name="kit")
        assert not exported.is_error
        await use(client, "load_room", room="kit")
        assert text_of(await use(client, "kit.ask")).startswith("nothing")
        painted = await use(client, "kit.paint", where={"path": "wall"})
        assert text_of(painted).endswith("\nIt changed wall.")
        assert painted.structured_content["kit"] == "kit"
        again = await use(client, "use_tool", name="kit:paint", arguments={"where": {"path": "x"}})
        assert text_of(again).endswith("\nIt changed x.")
        gone = await use(client, "toolsets.uninstall_toolset", name="kit", yes=True)
        assert text_of(gone) == "Uninstalled kit with 2 tools."
        assert "kit.ask" not in {tool.name for tool in (await client.list_tools()).tools}
    ann.hang_up()


async def test_agent_of_a_member_imports_nothing(house: Server) -> None:
    bob = house.person("bob")
    async with client_of(house, bob) as client:
        await use(client, "load_room", room="toolsets")
        listed = {tool.name for tool in (await client.list_tools()).tools}
        if "toolsets.import_toolset" in listed:
            refused = await use(client, "toolsets.import_toolset", archive="UEs=", encoded=True)
            assert refused.is_error and "admin right" in text_of(refused)
    assert house.owner.json("toolset list")["toolsets"] == []
    bob.hang_up()


def test_tool_of_somebody_else_changes_no_toolset(house: Server) -> None:
    """A tool acts as who calls it."""
    bob = house.person("bob2")
    bob.does("create den", "equip room toolsets:*")
    archive = base64.b64encode(pack(kit("evil", functions=("ask",)))).decode()
    for tool, call in (
        ("dice", f"import_toolset', {{archive='{archive}', encoded=true}}"),
        ("card", "uninstall_toolset', {name='kit', yes=true}"),
        ("coin", "export_toolset', {name='kit'}"),
    ):
        code = f"return host.call('toolsets:{call})"
        assert bob.run(f"tool new den:{tool}", code.encode(), "-T").status == 0
        called = house.owner.run(f"run --room den den:{tool}")
        assert called.status == 1 and "and no script" in called.out + called.err, called
    assert house.owner.json("toolset list")["toolsets"] == []
    bob.hang_up()
