"""Cost of an MCP tool call through the world and of the SDK alone; of a listing.

    python -m benchmarks.hub

The baseline is `mcp.Client` calling the same tool of the same program over the SDK's own stdio
transport. "hub" is the same call over the hub's connection, "tools.call" the whole path: loadout,
two durable rows in the room, usage figures, and their events.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sshwarma.mcp.client import listing_records, server_records
from sshwarma.mcp.client.hub import Hub
from sshwarma.mcp.client.link import ServerInfo
from sshwarma.mcp.client.sanitize import sanitize_listing
from sshwarma.settings import LimitSettings, McpSettings
from sshwarma.tools.call import Tools
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, calls, equipment
from sshwarma.world.caller import Caller
from sshwarma.world.request_services import RequestServices
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

CALLS = 300
SERVER = """
from mcp.server import MCPServer
mcp = MCPServer("bench")

@mcp.tool()
async def echo(text: str) -> str:
    return text

mcp.run("stdio")
"""


async def measure(what: str, once: Callable[[], Awaitable[object]], runs: int = CALLS) -> float:
    took = []
    for _ in range(20):
        await once()
    for _ in range(runs):
        began = time.perf_counter()
        await once()
        took.append(time.perf_counter() - began)
    p50, p95 = statistics.median(took), statistics.quantiles(took, n=20)[18]
    print(f"{what:<48} p50 {p50 * 1e3:7.2f} ms  p95 {p95 * 1e3:7.2f} ms", flush=True)
    return p50


async def direct(program: Path) -> float:
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=sys.executable, args=[str(program)])
    async with Client(server) as client:
        return await measure(
            "the SDK alone (baseline)", lambda: client.call_tool("echo", {"text": "hello"})
        )


async def through_the_world(world: World, folder: Path, program: Path) -> tuple[float, float]:
    person = await world.change(lambda tx: agents.create_agent(tx, "alice", role="owner"))
    caller = Caller(world, RequestServices(), LimitSettings(), person, "lobby", "ssh")
    hub = Hub(world, folder / "mcp")
    tools = Tools(world, {server_records.MCP_PROVIDER: hub})
    await hub.start()
    try:
        settings = McpSettings(name="bench", command=(sys.executable, str(program)))
        server = await hub.add(caller, settings)
        await hub.wait_until_settled("bench", 30)

        def equip(tx: Change) -> Thing:
            found = equipment.match_things(tx.conn, "bench:echo", ["lobby"])
            equipment.equip_things(tx, "lobby", found)
            return found[0]

        tool = await world.change(equip)
        alone = await measure("hub", lambda: hub.run(caller, tool, {"text": "hello"}))
        whole = await measure(
            "tools.call", lambda: tools.call(caller, "bench:echo", {"text": "hello"})
        )
        await rows_alone(world, caller)
        began = time.perf_counter()
        await asyncio.gather(
            *(tools.call(caller, "bench:echo", {"text": "hello"}) for _ in range(40))
        )
        rate = 40 / (time.perf_counter() - began)
        print(f"{'tools.call, 40 at once':<48} {rate:11.0f} a second")
        assert server.id == server_records.server_thing_id("bench")
        return alone, whole
    finally:
        await hub.close()


async def rows_alone(world: World, caller: Caller) -> None:
    """Measure the two rows of a call alone."""

    async def once() -> None:
        row = await world.change(
            lambda tx: calls.record_call_start(
                tx, "lobby", caller.agent.id, "bench:echo", {}, turn_id=None, parent_row_id=None
            )
        )
        await world.change(lambda tx: calls.record_call_end(tx, row, "result", "hello", None, 0.0))

    await measure("two rows of the call alone", once)


async def listings(world: World) -> None:
    def raw(words: str) -> list[object]:
        return [
            {
                "name": f"tool{n}",
                "description": f"Does a thing of number {n}. {words}",
                "inputSchema": {
                    "type": "object",
                    "properties": {"x": {"type": "integer", "description": "An x."}},
                    "required": ["x"],
                },
            }
            for n in range(500)
        ]

    began = time.perf_counter()
    first, second = sanitize_listing(list(raw("")), 500), sanitize_listing(list(raw("Or so.")), 500)
    mending = (time.perf_counter() - began) / 2
    print(f"{'500 tools sanitized (in a thread)':<48}     {mending * 1e3:7.2f} ms")
    settings = McpSettings(name="many", command=("true",))
    greeting = ServerInfo("2026-07-28", "many 1", "auto")
    server = await world.change(
        lambda tx: server_records.declare_server(tx, settings, created_by=None, from_settings=False)
    )
    for what, listing in (("created", first), ("unchanged", first), ("all changed", second)):
        began = time.perf_counter()
        await world.change(
            lambda tx, listing=listing: listing_records.publish_listing(
                tx, server.id, greeting, listing, trust=True
            )
        )
        took = time.perf_counter() - began
        print(f"{f'500 tools {what}, one transaction':<48}     {took * 1e3:7.2f} ms")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "server.py"
        program.write_text(SERVER)
        floor = await direct(program)
        world = await World.open(folder / "world.db", tool_specs())
        try:
            alone, whole = await through_the_world(world, folder, program)
            await listings(world)
        finally:
            await world.close()
    print(f"hub / SDK {alone / floor:.2f}, tools.call / SDK {whole / floor:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
