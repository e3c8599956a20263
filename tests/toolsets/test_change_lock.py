"""Imports and changes of toolsets, of which one goes on at a time."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

from sshwarma.common.limits import MAX_SANDBOXES_PER_PERSON
from sshwarma.sandbox.host import SandboxHost, SandboxUser
from sshwarma.toolsets.toolsets import Toolsets
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.runs import WorkspaceRuns
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.world import World
from support.people import Someone, make
from support.sandboxes import ACCOUNTS
from support.services import services_in
from support.toolset_kit import kit, pack


async def test_import_that_waits_for_own_programs_holds_up_nobody(
    world: World, alice: Someone, bob: Someone, tmp_path: Path
) -> None:
    host = SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices")
    runs = WorkspaceRuns(Workspaces(world, BlobStore(tmp_path / "blobs")), host, tmp_path / "rooms")
    toolsets = Toolsets(world, runs, services_in(world).hub.bundled, tmp_path)
    space = await make(world, "mcps", "mcp", "other", qualified_name="other")
    waits = asyncio.Event()
    waiting = replace(alice.caller, on_progress=lambda text: waits.set())
    async with contextlib.AsyncExitStack() as own:
        for _ in range(MAX_SANDBOXES_PER_PERSON):
            await own.enter_async_context(host.take_share(SandboxUser(alice.id)))
        installing = asyncio.create_task(toolsets.install(waiting, pack(kit("kita"))))
        try:
            await asyncio.wait_for(waits.wait(), 30)
            switching = toolsets.switch(bob.caller, space, is_enabled=False)
            await asyncio.wait_for(switching, 10)
            assert not installing.done()
        finally:
            installing.cancel()
            await asyncio.wait({installing})
