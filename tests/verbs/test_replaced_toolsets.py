"""A toolset that is replaced between the check of a call and its start."""

from __future__ import annotations

import pytest

from sshwarma.toolsets.archive import read_archive
from sshwarma.toolsets.bundle import hash_files, read_bundle
from sshwarma.toolsets.records import ToolInfo, install_toolset
from sshwarma.toolsets.stored_keys import ZIP, Source
from sshwarma.world import things
from sshwarma.world.errors import Conflict
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.people import Someone
from support.services import services_in
from support.toolset_kit import kit, pack


async def install(world: World, owner: Someone, version: str) -> Thing:
    """Install a version of a kit without a look at its code; return a tool of it."""
    bundle = read_bundle(read_archive(pack(kit("kit", version, functions=("fail",)))))
    blobs = services_in(world).workspaces.blobs
    for content in bundle.contents.values():
        blobs.store(content)
    tools = [ToolInfo("fail", None, "Fails.", {"type": "object"}, requires_confirmation=True)]
    tree = hash_files(bundle.hashes)
    await world.change(
        lambda tx: install_toolset(
            tx, bundle, tools, tree=tree, packages="", source=Source(ZIP, "", owner.id, "exec")
        )
    )
    tool = await world.store.read(lambda conn: things.find_by_qualified_name(conn, "kit:fail"))
    assert tool is not None
    return tool


async def test_call_that_was_checked_runs_no_other_code(world: World, alice: Someone) -> None:
    checked = await install(world, alice, "1")
    await install(world, alice, "2")
    with pytest.raises(Conflict, match="kit:fail was changed just now: call it again"):
        await services_in(world).toolsets.run(alice.caller, checked, {})
