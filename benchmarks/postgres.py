"""Durable rows a second on SQLite and on PostgreSQL, with several servers.

    python -m benchmarks.postgres postgresql://USER@HOST/NAME [SECONDS]

The database must be empty, and on a server of its own: its settings (fsync, the disk) decide. The
baseline is the file, by the same store. Each server is a process; a writer waits until its row is
durable. After each run the numbers of the rows must be dense.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.store import TEXT
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import rows, things
from sshwarma.world.databases import DatabaseUrl, Location, make_dialect
from sshwarma.world.events import Event, RowAppended
from sshwarma.world.store import Change, Store
from sshwarma.world.world import World

WRITERS = 200
ELSEWHERE_RATE = 100
ROOMS = 100


@dataclass
class Run:
    """What one server did: rows, and the time of each in milliseconds."""

    count: int
    times: Sequence[float]
    loop_lags: Sequence[float]


async def write_rows(location: Location, writers: int, seconds: float, hot: float) -> Run:
    """Append rows for some seconds; `hot` is the share of them that goes to one room."""
    store = Store(make_dialect(location), lambda event: None)
    times: list[float] = []
    lags: list[float] = []
    end = time.perf_counter() + seconds

    async def write() -> None:
        while time.perf_counter() < end:
            room = "lobby" if random.random() < hot else f"room{random.randrange(ROOMS)}"

            def unit(tx: Change, room: str = room) -> None:
                rows.append_row(tx, room, "chat", TEXT, author_id=None)

            started = time.perf_counter()
            await store.write(unit)
            times.append((time.perf_counter() - started) * 1_000)

    async def watch() -> None:
        while time.perf_counter() < end:
            started = time.perf_counter()
            await asyncio.sleep(0.005)
            lags.append((time.perf_counter() - started) * 1_000 - 5)

    await asyncio.gather(watch(), *(write() for _ in range(writers)))
    await store.close()
    return Run(len(times), times, lags)


def run_server(address: str, writers: int, seconds: float, hot: float) -> Run:
    """Run one server in this process."""
    return asyncio.run(write_rows(DatabaseUrl(address), writers, seconds, hot))


async def measure_hearing(address: str, seconds: float) -> tuple[list[float], list[float]]:
    """Return milliseconds until a line is stored, and until another server hears it.

    Two servers; the first also writes ELSEWHERE_RATE rows a second to other rooms.
    """
    heard: dict[str, float] = {}

    def note(event: Event) -> None:
        if isinstance(event, RowAppended) and event.row.room_id == "lobby":
            heard[event.row.content] = time.perf_counter()

    first = Store(make_dialect(DatabaseUrl(address)), lambda event: None)
    second = Store(make_dialect(DatabaseUrl(address)), note)
    await second.write(lambda tx: tx.now)
    started: dict[str, float] = {}
    stored: list[float] = []
    end = time.perf_counter() + seconds

    def append(room: str, words: str) -> Callable[[Change], int]:
        return lambda tx: rows.append_row(tx, room, "chat", words, author_id=None).seq

    async def write_elsewhere() -> None:
        while time.perf_counter() < end:
            await first.write(append(f"room{random.randrange(ROOMS)}", TEXT))
            await asyncio.sleep(1 / ELSEWHERE_RATE)

    async def write() -> None:
        while time.perf_counter() < end:
            words = f"line {len(started)}"
            started[words] = time.perf_counter()
            await first.write(append("lobby", words))
            stored.append((time.perf_counter() - started[words]) * 1_000)
            await asyncio.sleep(0.02)

    await asyncio.gather(write(), write_elsewhere())
    while len(heard) < len(started):
        await asyncio.sleep(0.01)
    for store in (first, second):
        await store.close()
    return stored, [(heard[words] - began) * 1_000 for words, began in started.items()]


async def prepare(location: Location) -> None:
    """Make a world with ROOMS rooms."""
    world = await World.open(location, tool_specs())

    def work(tx: Change) -> None:
        for number in range(ROOMS):
            things.create_thing(tx, "rooms", "room", f"room{number}", id=f"room{number}")

    await world.change(work)
    await world.close()


def check_numbers(address: str) -> str:
    """Return "dense", or what is wrong with the numbers of the rows."""
    query = (
        "SELECT count(*), count(*) FILTER (WHERE last - first + 1 <> rows) FROM (SELECT"
        " min(seq) AS first, max(seq) AS last, count(DISTINCT seq) AS rows FROM rows"
        " GROUP BY room_id) AS logs"
    )
    with psycopg.connect(address) as conn:
        found = conn.execute(query).fetchone()
    assert found is not None
    return "dense" if found[1] == 0 else f"gaps in {found[1]} of {found[0]} logs"


def show(name: str, runs: Sequence[Run], seconds: float, floor: float, note: str) -> float:
    """Print a line; return rows a second."""
    times = sorted(time for run in runs for time in run.times)
    lags = sorted(lag for run in runs for lag in run.loop_lags)
    rate = sum(run.count for run in runs) / seconds
    p99 = times[int(len(times) * 0.99)]
    fairness = min(run.count for run in runs) / max(run.count for run in runs)
    print(
        f"{name:<34}{rate:>9.0f}{rate / (floor or rate):>7.2f}{statistics.median(times):>8.1f}"
        f"{p99:>8.1f}{lags[int(len(lags) * 0.99)]:>8.1f}{fairness:>9.2f}  {note}"
    )
    return rate


def main() -> None:
    """Measure, and print a table."""
    address = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    print(
        f"{'':<34}{'rows/s':>9}{'ratio':>7}{'p50 ms':>8}{'p99 ms':>8}{'lag p99':>8}{'fairness':>9}"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "world.db"
        asyncio.run(prepare(file))
        alone = asyncio.run(write_rows(file, 1, seconds, 1.0))
        show("SQLite, 1 writer", [alone], seconds, 0, "")
        floor = show(
            f"SQLite, {WRITERS} writers",
            [asyncio.run(write_rows(file, WRITERS, seconds, 1.0))],
            seconds,
            0,
            "",
        )
    asyncio.run(prepare(DatabaseUrl(address)))
    show("PostgreSQL, 1 writer", [run_server(address, 1, seconds, 1.0)], seconds, floor, "")
    context = multiprocessing.get_context("spawn")
    for servers in (1, 2, 4):
        for name, hot in (("one room", 1.0), ("mixed rooms", 0.2)):
            with context.Pool(servers) as pool:
                asked = [(address, WRITERS // servers, seconds, hot)] * servers
                runs = pool.starmap(run_server, asked)
            title = f"PostgreSQL, {servers} servers, {name}"
            show(title, runs, seconds, floor, check_numbers(address))
    both = asyncio.run(measure_hearing(address, seconds))
    for name, times in zip(("stored", "heard by another server"), both, strict=True):
        p99 = sorted(times)[int(len(times) * 0.99)]
        print(f"a line, {name:<26}{'':>16}{statistics.median(times):>8.1f}{p99:>8.1f}")


if __name__ == "__main__":
    main()
