"""Overrides of toolsets in the world: stored, upgraded, exported and removed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import delete

from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.bundled_servers import BundledServers
from sshwarma.mcp.client.link import ServerInfo
from sshwarma.mcp.client.listing_records import publish_listing
from sshwarma.mcp.client.sanitize import sanitize_listing
from sshwarma.tools.provider import ToolResult
from sshwarma.toolsets import records
from sshwarma.toolsets.bundle import hash_files, read_bundle
from sshwarma.toolsets.manifest_reading import check_manifest
from sshwarma.toolsets.rendered_results import add_render_plan
from sshwarma.toolsets.servers import read_servers
from sshwarma.toolsets.stored_keys import ZIP, Source
from sshwarma.world import overrides, things
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.leave_out import read_retention_by_name
from sshwarma.world.namespace_fields import set_namespace_field
from sshwarma.world.overrides import Override
from sshwarma.world.schema import tool_overrides
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.people import Someone

CODE = {"renderer": "code", "renderer_config": {"content": "$return"}}
DRAWN = {"content": "$return"}


class Kit:
    """A toolset with a tool `cut` and an MCP server `n9`, in several versions."""

    def __init__(self, world: World, owner: Someone) -> None:
        self.world = world
        self.owner = owner

    async def install(
        self,
        *entries: dict[str, Any],
        server: dict[str, Any] | None = None,
        pages: tuple[str, ...] = (),
        said: dict[str, Any] | None = None,
    ) -> None:
        """Install a version with these `tool_overrides`; `said` is of its tool."""
        fields = {
            "manifest_version": "1", "id": "kit", "name": "Kit", "version": "1",
            "tools": [{"id": "cut", "entrypoint": "tools.kit:cut", **(said or {})}],
            "tool_overrides": list(entries),
            "mcp_servers": [] if server is None else [{"id": "n9", "command": "x", **server}],
        }  # fmt: skip
        files = {"toolset.yaml": json.dumps(fields).encode(), "tools/kit.py": b"def cut(): ..."}
        bundle = read_bundle(files | dict.fromkeys(pages, b""))
        tools = [records.ToolInfo("cut", None, "Cuts.", {"type": "object"}, False)]

        def work(tx: Change) -> None:
            space = records.install_toolset(
                tx, bundle, tools, tree=hash_files(bundle.hashes), packages="",
                source=Source(ZIP, "", self.owner.id, "exec"),
            )  # fmt: skip
            for settings, shown in read_servers(bundle.manifest):
                server_records.declare_bundled(tx, settings, space, dict(shown), self.owner.id)

        await self.world.change(work)

    async def connect(self, schema: dict[str, Any] | None = None) -> Thing:
        """Let the server list a tool `search`; return it with its override."""
        listing = sanitize_listing(
            [{"name": "search", "inputSchema": schema or {"type": "object"}}], 9
        )
        await self.world.change(
            lambda tx: publish_listing(
                tx, "mcp_n9", ServerInfo("1", "n9", "auto", ""), listing, trust=False
            )
        )
        tool = await self.world.store.read(lambda c: things.find_by_qualified_name(c, "n9:search"))
        assert tool is not None
        return overrides.apply_override(tool, await self.stored("n9:search"))

    async def stored(self, tool: str = "kit:cut") -> Override | None:
        return (await self.world.store.read(overrides.read_overrides)).get(tool)

    async def decide(self, **decisions: Any) -> None:
        await self.world.change(lambda tx: overrides.set_override(tx, "kit:cut", **decisions))

    async def space(self) -> Thing:
        return await self.world.store.read(lambda conn: records.find_toolset(conn, "kit"))


@pytest.fixture
def kit(world: World, alice: Someone) -> Kit:
    return Kit(world, alice)


async def test_fields_of_the_author_follow_the_next_version(kit: Kit) -> None:
    said = {"requires_confirmation": True, "enabled": False, "description_override": "A."}
    await kit.install({"tool_id": "cut", "name_override": "Cut", **said, **CODE})
    assert await kit.stored() == Override("kit:cut", False, "Cut", "A.", True, "code", DRAWN)
    await kit.install({"tool_id": "cut", "name_override": "Trim", "requires_confirmation": False})
    assert await kit.stored() == Override("kit:cut", name="Trim", requires_confirmation=False)
    await kit.install()
    assert await kit.stored() == Override("kit:cut")


async def test_decisions_of_people_stay_at_an_upgrade(kit: Kit) -> None:
    said = {"tool_id": "cut", "name_override": "Cut", "enabled": False}
    await kit.install({**said, "description_override": "A.", **CODE})
    page = {"renderer": "frame", "renderer_config": {"port": 80}}
    await kit.decide(enabled=True, description=None, requires_confirmation=True, **page)
    await kit.install(
        {"tool_id": "cut", "name_override": "Trim", "description_override": "B.",
         "requires_confirmation": False, "renderer": "document",
         "renderer_config": {"content": "x"}},
    )  # fmt: skip
    decided = Override("kit:cut", True, "Trim", None, True, "frame", {"port": 80})
    assert await kit.stored() == decided


async def test_manifest_says_what_models_are_left_out_and_people_decide_otherwise(
    kit: Kit,
) -> None:
    async def read() -> str:
        retention = await kit.world.store.read(lambda c: read_retention_by_name(c, "kit:cut"))
        return str(retention)

    await kit.install(said={"leave_out": "SHORT 40", "leave_out_per_action": {"drop": "OMIT"}})
    assert await read() == "SHORT 40; drop: OMIT"
    await kit.install(said={"leave_out": "PARAMS_ONLY"})
    assert await read() == "PARAMS_ONLY"

    def decide(tx: Change) -> None:
        tool = things.find_by_qualified_name(tx.conn, "kit:cut")
        assert tool is not None
        set_namespace_field(tx, tool, "leave_out", "KEEP")

    await kit.world.change(decide)
    await kit.install(said={"leave_out": "OMIT"})
    assert await read() == "KEEP"
    await kit.install()
    assert await read() == "KEEP"


async def test_decisions_stay_if_the_manifest_before_cannot_be_read(kit: Kit) -> None:
    await kit.install({"tool_id": "cut", "enabled": False})
    space = await kit.space()
    broken = {**space.metadata, BUNDLE_KEY: {"id": "kit"}}
    await kit.world.change(lambda tx: things.update_thing(tx, space.id, metadata=broken))
    await kit.install({"tool_id": "cut", "enabled": True, "requires_confirmation": True})
    assert await kit.stored() == Override("kit:cut", enabled=False, requires_confirmation=True)


async def test_override_of_a_server_tool_applies_from_its_first_listing(kit: Kit) -> None:
    entry = {"tool_id": "n9:search", "requires_confirmation": True, "enabled": False, **CODE}
    await kit.install(entry | {"name_override": "Look", "description_override": "A."}, server={})
    tool = await kit.connect()
    assert (tool.enabled, tool.description, tool.metadata[overrides.CONFIRM_KEY]) == (
        False, "A.", True,
    )  # fmt: skip
    assert await kit.stored("n9:search") == Override(
        "n9:search", False, "Look", "A.", True, "code", DRAWN
    )
    await kit.install({"tool_id": "n9:search", "enabled": True}, server={})
    tool = await kit.connect()
    assert tool.enabled and not tool.metadata.get(overrides.CONFIRM_KEY)


async def test_override_that_was_not_stored_before_comes_with_an_upgrade(kit: Kit) -> None:
    entry = {"tool_id": "n9:search", "requires_confirmation": True}
    await kit.install(entry, server={})
    await kit.world.change(lambda tx: tx.conn.execute(delete(tool_overrides)))
    await kit.install(entry, server={})
    assert (await kit.connect()).metadata[overrides.CONFIRM_KEY]


async def test_overrides_of_servers_are_exported_and_end_with_the_toolset(kit: Kit) -> None:
    entry = {"tool_id": "n9:search", "requires_confirmation": True}
    await kit.install({"tool_id": "cut", "enabled": False}, entry, server={})
    space = await kit.space()
    decided = await kit.world.store.read(lambda conn: records.read_decisions(conn, space))
    exported = check_manifest(records.merge_overrides(space, decided))
    assert [one.model_dump(exclude_none=True) for one in exported.tool_overrides] == [
        {"tool_id": "cut", "enabled": False}, entry,
    ]  # fmt: skip
    await kit.world.change(lambda tx: records.uninstall_toolset(tx, space))
    assert await kit.world.store.read(overrides.read_overrides) == {}


async def test_overrides_end_when_the_next_version_has_no_server(kit: Kit) -> None:
    await kit.install({"tool_id": "n9:search", "requires_confirmation": True}, server={})
    await kit.install()
    assert await kit.stored("n9:search") == Override("n9:search")


async def test_confirmation_of_a_server_ends_with_the_next_version(kit: Kit) -> None:
    await kit.install(server={"requires_confirmation": True})
    assert (await kit.connect()).metadata[overrides.CONFIRM_KEY]
    await kit.install(server={})
    assert not (await kit.connect()).metadata.get(overrides.CONFIRM_KEY)


@pytest.mark.parametrize("taken", ["workspace", "lobby", "room"])
async def test_id_that_is_taken_is_named_with_field_and_line(world: World, taken: str) -> None:
    text = f'manifest_version: "1"\nname: Kit\nid: {taken}\nversion: "1"\n'
    bundle = read_bundle({"toolset.yaml": text.encode()})

    def work(tx: Change) -> None:
        records.install_toolset(
            tx, bundle, [], tree="", packages="", source=Source(ZIP, "", "system", "exec")
        )

    with pytest.raises((Invalid, Conflict), match=rf"toolset.yaml: id: .*{taken}.* \(line 3\)\."):
        await world.change(work)


@pytest.mark.parametrize("taken", ["sshwarma", "lobby"])
async def test_server_whose_name_is_taken_is_named_with_its_line(
    world: World, alice: Someone, taken: str
) -> None:
    text = (
        'manifest_version: "1"\nname: Kit\nid: kit\nversion: "1"\nmcp_servers:\n'
        f"  - id: free\n    command: x\n  - id: {taken}\n    command: x\n"
    )
    bundle = read_bundle({"toolset.yaml": text.encode()})
    servers = BundledServers(world, None)  # type: ignore[arg-type]

    def work(tx: Change) -> None:
        space = records.install_toolset(
            tx, bundle, [], tree="", packages="", source=Source(ZIP, "", alice.id, "exec")
        )
        known = read_servers(bundle.manifest)
        servers.declare(tx, space, known, alice.id, bundle.describe_problem)

    said = rf"toolset.yaml: mcp_servers\[1\]\.id: {taken} is already the name of .* \(line 8\)\."
    with pytest.raises(Conflict, match=said):
        await world.change(work)


async def test_plan_of_a_call_has_the_defaults_of_its_tool(kit: Kit, alice: Someone) -> None:
    html = {"renderer": "html", "renderer_config": {"artifact": "a.html", "data": "$args.path"}}
    await kit.install({"tool_id": "n9:search", **html}, server={}, pages=("a.html",))
    tool = await kit.connect({"type": "object", "properties": {"path": {"default": "out.txt"}}})
    none: Any = None  # a page is not looked up in the files of a room
    result = await add_render_plan(none, alice.caller, tool, {}, ToolResult("hi"), "hi")
    assert result.render_plan == {
        "renderer": "html",
        "config": {"artifact": "a.html", "data": "out.txt"},
    }
