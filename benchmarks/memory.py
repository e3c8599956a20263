"""Cost of the memory of a project over MCP, beside the smallest verb.

    python -m benchmarks.memory

Calls of the kinds alternate, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.client.client import Client

from benchmarks.mcp_server import fill, over_http, running, serve
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import memory, projects
from sshwarma.world.store import Change
from sshwarma.world.world import World

ROUNDS = 400
OTHER_PROJECTS = 10
FEW_KEYS, MANY_KEYS = 100, 10_000
SMALLEST = "sshwarma.vibe"
TEXT = "Ship on Friday, and tell alice.\n" * 30
ENDLESS = "x*y|x"

Call = Callable[[], Awaitable[Any]]


async def alternate(calls: dict[str, Call], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the median of each call in ms."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        await call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            await call()
            taken[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(times) for name, times in taken.items()}


async def add_keys(path: Path, keys: int) -> None:
    """Store keys in projects that the room does not use."""
    world = await World.open(path, tool_specs())

    def work(tx: Change) -> None:
        for number in range(OTHER_PROJECTS):
            project = projects.create_project(
                tx, f"/srv/other-{number}", owner_id=None, created_by="bench"
            )
            for key in range(keys // OTHER_PROJECTS):
                memory.write_value(tx, project.id, f"key-{key}", TEXT, author_id="bench")

    await world.change(work)
    await world.close()


def calls_of(client: Client) -> dict[str, Call]:
    """Return the calls that are measured."""

    def tool(name: str, **arguments: Any) -> Call:
        return lambda: client.call_tool(name, arguments)

    counter = iter(range(10_000_000))
    return {
        "smallest": tool(SMALLEST),
        "get": tool("project_memory_get_variable", key="plan"),
        "set": lambda: client.call_tool(
            "project_memory_set_variable", {"key": "plan", "value": f"{TEXT}{next(counter)}"}
        ),
        "list": tool("project_memory_list_variables"),
        "search": tool("project_memory_search_by_regex", key="plan", pattern="Fri.*alice"),
    }


async def measure(keys: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        token = await fill(Path(home) / "world.db", 1, 1)
        await add_keys(Path(home) / "world.db", keys)
        async with (
            running(*serve(home)) as server,
            over_http(server["http"], token, "auto") as client,
        ):
            for key in ("plan", *(f"note-{number}" for number in range(20))):
                await client.call_tool("project_memory_set_variable", {"key": key, "value": TEXT})
            return await alternate(calls_of(client))


async def delay() -> tuple[float, float]:
    """Return the longest look in ms, alone and beside a search without end."""
    with tempfile.TemporaryDirectory() as home:
        token = await fill(Path(home) / "world.db", 1, 1)
        async with (
            running(*serve(home)) as server,
            over_http(server["http"], token, "auto") as client,
            over_http(server["http"], token, "auto") as other,
        ):
            await client.call_tool(
                "project_memory_set_variable", {"key": "long", "value": "x" * 1_000_000}
            )

            async def longest(until: asyncio.Task[Any]) -> float:
                most = 0.0
                while not until.done():
                    start = time.perf_counter()
                    await other.call_tool("look", {})
                    most = max(most, time.perf_counter() - start)
                return most * 1e3

            alone = await longest(asyncio.create_task(asyncio.sleep(2)))
            search = client.call_tool(
                "project_memory_search_by_regex", {"key": "long", "pattern": ENDLESS}
            )
            return alone, await longest(asyncio.create_task(search))


async def main() -> None:
    few, many = await measure(FEW_KEYS), await measure(MANY_KEYS)
    print(f"{ROUNDS} calls over MCP (http), p50; the floor is {SMALLEST}:")
    for name, taken in few.items():
        print(f"  {taken:6.2f} ms  {taken / few['smallest']:4.2f}x   {name}")
    print(f"with {MANY_KEYS} keys in other projects, beside {FEW_KEYS}, each to its own floor:")
    for name in ("get", "set", "list", "search"):
        ratio = (many[name] / many["smallest"]) / (few[name] / few["smallest"])
        print(f"  {many[name]:6.2f} ms  {ratio:4.2f}x   {name}")
    alone, beside = await delay()
    print(f"the longest look: {alone:.1f} ms alone, {beside:.1f} ms beside a search without end")


if __name__ == "__main__":
    asyncio.run(main())
