"""Durable rows a second, and cost of look, inventory and loadout, in two worlds.

It counts said lines a second too. The worlds are of two sizes.

    python -m benchmarks.store

The baseline of the rows is bare sqlite3, one thread, one commit per row, with the same durability;
a group of writers can beat it only by sharing commits.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from benchmarks.services import idle_services
from sshwarma.services import Services
from sshwarma.settings import LimitSettings
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, loadout, rows
from sshwarma.world.caller import Caller
from sshwarma.world.ids import new_id, now_ms
from sshwarma.world.schema import things
from sshwarma.world.world import World

TEXT = "a line of talk of the usual length, which is about eighty characters long here."
WRITES = 10_000


def bare_rows(path: Path) -> float:
    """Return rows a second of sqlite3 alone, with one commit per row."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, id TEXT UNIQUE, room, content)")
    started = time.perf_counter()
    for _ in range(WRITES // 5):
        database.execute(
            "INSERT INTO rows (id, room, content) VALUES (?, 'lobby', ?)", (new_id(), TEXT)
        )
    took = time.perf_counter() - started
    database.close()
    return WRITES / 5 / took


async def world_rows(world: World, writers: int) -> float:
    """Return rows a second of the world; each writer waits until its row is durable."""

    async def write(count: int) -> None:
        for _ in range(count):
            await world.change(
                lambda tx: rows.append_row(tx, "lobby", "chat", TEXT, author_id=None)
            )

    count = WRITES // writers if writers > 1 else WRITES // 10
    started = time.perf_counter()
    await asyncio.gather(*(write(count) for _ in range(writers)))
    return writers * count / (time.perf_counter() - started)


async def said_lines(world: World, services: Services, people: int) -> float:
    """Return lines a second that people say at once through the verb, each durable."""
    members = [
        await world.change(lambda tx: agents.create_agent(tx, new_name(), role="member"))
        for _ in range(people)
    ]
    limits = LimitSettings(lines_per_10_seconds=1_000_000, text_mib_per_hour=10_000)
    callers = [Caller(world, services, limits, member, "lobby", "ssh") for member in members]

    async def talk(caller: Caller, count: int) -> None:
        for _ in range(count):
            await run_line(caller, TEXT)

    count = max(WRITES // (5 * people), 10)
    started = time.perf_counter()
    await asyncio.gather(*(talk(caller, count) for caller in callers))
    return people * count / (time.perf_counter() - started)


async def fill(world: World, count: int, prefix: str) -> None:
    """Add `count` things to the world: 50 per room, in rooms that nobody uses."""
    now = now_ms()

    def work(tx: Any) -> None:
        common = {"created_at": now, "updated_at": now}
        for number in range(count // 50):
            room = new_id()
            of_room = {"parent_id": "rooms", "kind": "room", "name": f"{prefix}{number}", **common}
            inside = {"parent_id": room, "kind": "data", **common}
            made = [{"id": new_id(), "name": f"thing{n}", **inside} for n in range(49)]
            tx.conn.execute(insert(things), [{"id": room, **of_room}, *made])

    await world.change(work)


async def timed(run: Callable[[], Awaitable[object]], times: int = 200) -> float:
    """Return the median time of a call in microseconds."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await run()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e6


async def reads(world: World, services: Services) -> dict[str, float]:
    """Measure common reads of a world, cached and computed again."""
    agent = await world.change(lambda tx: agents.create_agent(tx, new_name(), role="owner"))
    caller = Caller(world, services, LimitSettings(), agent, "lobby", "ssh")

    async def uncached(line: str) -> None:
        world.version += 1  # as any change of structure does
        await run_line(caller, line)

    return {
        "/look cached": await timed(lambda: run_line(caller, "/look")),
        "/look computed": await timed(lambda: uncached("/look")),
        "/inv computed": await timed(lambda: uncached("/inv")),
        "loadout computed": await timed(
            lambda: world.store.read(lambda conn: loadout.compute_loadout(conn, "lobby", agent.id))
        ),
    }


_letters = itertools.product("abefghjkpqtxyz", repeat=3)


def new_name() -> str:
    """Return a name that nobody has, of letters that are not confused."""
    return f"bench-{''.join(next(_letters))}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        floor = bare_rows(Path(directory) / "bare.db")
        world = await World.open(Path(directory) / "world.db", tool_specs())
        services = idle_services(world, Path(directory))
        print(f"{'durable rows a second':<30}{'':>10}{'baseline':>10}{'ratio':>8}")
        for writers in (1, 50, 200):
            rate = await world_rows(world, writers)
            print(f"{f'{writers} writers':<30}{rate:>10.0f}{floor:>10.0f}{rate / floor:>8.2f}")
        for people in (1, 50, 200):
            rate = await said_lines(world, services, people)
            print(
                f"{f'{people} people say lines':<30}{rate:>10.0f}{floor:>10.0f}{rate / floor:>8.2f}"
            )
        await fill(world, 1_000, "small")
        small = await reads(world, services)
        await fill(world, 99_000, "big")
        big = await reads(world, services)
        await world.close()
    print(f"\n{'microseconds, median':<30}{'1k':>10}{'100k':>10}{'ratio':>8}   must be <= 1.5")
    for name, value in small.items():
        print(f"{name:<30}{value:>10.0f}{big[name]:>10.0f}{big[name] / value:>8.2f}")


if __name__ == "__main__":
    asyncio.run(main())
