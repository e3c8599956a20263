"""Changes of toolsets whose caller is stopped just after they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sshwarma.sandbox.host import SandboxHost
from sshwarma.toolsets import toolsets as toolsets_module
from sshwarma.toolsets.bundle import Bundle
from sshwarma.toolsets.records import ToolInfo
from sshwarma.toolsets.toolsets import Toolsets
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.runs import WorkspaceRuns
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world import things
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.people import Someone
from support.sandboxes import ACCOUNTS
from support.toolset_kit import kit, pack


class Servers:
    """The servers of toolsets, which only remember what was to be connected."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def declare(self, *_: Any) -> None:
        pass

    def remove(self, *_: Any) -> None:
        pass

    async def apply(self, space_id: str) -> None:
        await asyncio.sleep(0)
        self.applied.append(space_id)


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def toolsets(
    world: World, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Toolsets:
    async def describe(_: Any, __: Any, bundle: Bundle, ___: Any) -> Any:
        tools = bundle.manifest.tools
        return [ToolInfo(one.id, None, "x", {"type": "object"}, False) for one in tools], ()

    monkeypatch.setattr(toolsets_module, "inspect_bundle", describe)
    host = SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices")
    runs = WorkspaceRuns(Workspaces(world, BlobStore(tmp_path / "blobs")), host, tmp_path / "rooms")
    return Toolsets(world, runs, servers, tmp_path)


async def stop_after_commit(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[], Coroutine[Any, Any, Any]]
) -> None:
    """Cancel a change when it is stored."""
    store = world.change

    async def store_and_cancel(work: Any, **options: Any) -> Any:
        result = await store(work, **options)
        changing.cancel()
        await asyncio.sleep(0)
        return result

    changing = asyncio.create_task(change())
    with monkeypatch.context() as patched:
        patched.setattr(world, "change", store_and_cancel)
        with pytest.raises(asyncio.CancelledError):
            await changing


async def find_kit(world: World) -> Thing | None:
    return await world.store.read(lambda conn: things.find_by_qualified_name(conn, "kita"))


async def test_servers_are_connected_as_what_is_stored_says(
    world: World, toolsets: Toolsets, servers: Servers, alice: Someone,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def stop(change: Callable[[], Coroutine[Any, Any, Any]]) -> Coroutine[Any, Any, None]:
        return stop_after_commit(world, monkeypatch, change)

    await stop(lambda: toolsets.install(alice.caller, pack(kit("kita"))))
    space = await find_kit(world)
    assert space is not None and servers.applied == [space.id]
    await stop(lambda: toolsets.switch(alice.caller, space, is_enabled=False))
    off = await find_kit(world)
    assert off is not None and not off.enabled
    assert servers.applied == [space.id] * 2
    await stop(lambda: toolsets.uninstall(alice.caller, space))
    assert await find_kit(world) is None
    assert servers.applied == [space.id] * 3
