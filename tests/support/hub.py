"""A world with a hub that loses no time, and ways to look at what came of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.hub import Hub
from sshwarma.mcp.client.server_state import SupervisorTiming
from sshwarma.settings import McpSettings
from sshwarma.tools.call import Tools
from sshwarma.tools.call_outcome import CallOutcome
from sshwarma.world import equipment, things
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.driver.installed import POISONED
from support.people import Someone
from support.services import use_services, verb_providers

QUICK = SupervisorTiming(
    probe=30,
    probe_timeout=30,
    refresh=300,
    debounce_seconds=0.02,
    first_retry_seconds=0.05,
    max_retry_seconds=0.2,
    port_check_seconds=0.1,
)


class Hubbed:
    """A world with a hub, as people and models use it."""

    def __init__(
        self, world: World, owner: Someone, folder: Path, timing: SupervisorTiming
    ) -> None:
        self.world = world
        self.owner = owner
        self.hub = Hub(world, folder, timing)
        self.tools = Tools(world, verb_providers() | {server_records.MCP_PROVIDER: self.hub})
        use_services(world, hub=self.hub, tools=self.tools)

    async def add(self, name: str, *command: str, wait: bool = True, **more: Any) -> Thing:
        """Add a server by its command, have it up, and equip all it has in the lobby."""
        given = {"command": command} if command else {}
        settings = McpSettings.model_validate({"name": name, **given, **more})
        made = await self.hub.add(self.owner.caller, settings)
        if wait:
            condition = await self.hub.wait_until_settled(name, 30)
            assert condition.state == "up", (condition, self.hub.log_of(made))
            await self.equip(f"{name}:*")
        return made

    async def poisoned(self, *options: str, wait: bool = True, **more: Any) -> Thing:
        return await self.add("evil", *POISONED, *options, wait=wait, **more)

    async def equip(self, pattern: str) -> None:
        def work(tx: Any) -> None:
            equipment.equip_things(tx, "lobby", equipment.match_things(tx.conn, pattern, ["lobby"]))

        await self.world.change(work)

    async def call(self, tool: str, who: Someone | None = None, **arguments: Any) -> CallOutcome:
        return await self.tools.call((who or self.owner).caller, tool, arguments)

    async def tool(self, name: str) -> Thing:
        found = await self.world.store.read(lambda conn: things.find_by_qualified_name(conn, name))
        assert found is not None, name
        return found

    async def server(self, name: str) -> Thing:
        return await self.hub.find(name)

    async def obstacle(self, name: str) -> str | None:
        """Why a tool cannot be used; empty if it can, None if it is not equipped."""
        load = await self.world.loadout("lobby", self.owner.id)
        return next((i.obstacle for i in load.tools if i.thing.label == name), None)

    async def until(self, what: Callable[[], Any], seconds: float = 30) -> None:
        """Wait until something is true; it may be a coroutine function."""
        async with asyncio.timeout(seconds):
            while True:
                found = what()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return
                await asyncio.sleep(0.01)

    def patience(self, name: str, seconds: float) -> None:
        """From now on a server's calls may take so long."""
        running = self.hub.pool.running[server_records.server_thing_id(name)]
        running.settings = running.settings.model_copy(update={"call_seconds": seconds})

    def state(self, name: str) -> str:
        running = self.hub.pool.running.get(server_records.server_thing_id(name))
        return running.state if running else "none"


def children() -> list[str]:
    """Programs that the hub has started, and whose parent is this process or none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                status = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            mine = status[1] == str(os.getpid()) and status[0] != "Z"
            if mine and any(word.endswith(b"spawn.py") for word in words):
                found.append(b" ".join(words).decode())
    return found
