"""Cost of aiosqlite, prompt_toolkit and httpx in places that do not use them.

    python -m pip install --target /some/folder aiosqlite greenlet prompt_toolkit httpx
    PYTHONPATH=/some/folder python -m benchmarks.rejected_libraries

None of the three is a dependency, so `make bench` does not run this. The figures stand in
docs/decisions/, pages 001, 002 and 004.
"""

from __future__ import annotations

import asyncio
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiosqlite
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.output.vt100 import Vt100_Output
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from sshwarma.terminal.keys import KeyParser
from sshwarma.world.sqlite_dialect import SqliteDialect
from sshwarma.world.store import Change, Store

TABLE = "CREATE TABLE rows (n INTEGER PRIMARY KEY, room TEXT, content TEXT)"
INSERT = "INSERT INTO rows (room, content) VALUES ('lobby', 'a line of talk of the usual length')"
SELECT = "SELECT content FROM rows WHERE n = 1"
PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
READS = 400
UNITS = 2_000
STATEMENTS_PER_UNIT = 5
PROMPT_KEYS = 300
HTTP_RUNS = 7

LIBRARY_COST = """
import resource, sys, time

def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1024

import httpx2
before, began = rss(), time.process_time()
import httpx
client = httpx.AsyncClient()
print((time.process_time() - began) * 1e3, rss() - before)
"""


async def median_microseconds(once: Callable[[], Awaitable[object]]) -> float:
    """Median duration of a read."""
    taken = []
    for _ in range(READS):
        began = time.perf_counter()
        await once()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


async def compare_reads(store: Store, lite: aiosqlite.Connection, engine: AsyncEngine) -> None:
    """A unit that reads with 1, 5 and 20 statements."""
    print(f"{'read, us':<24}{'store':>12}{'aiosqlite':>12}{'SQLAlchemy on aiosqlite':>26}")
    query = text(SELECT)
    for count in (1, 5, 20):

        async def ours(count: int = count) -> None:
            await store.read(lambda conn: [conn.execute(query).scalar() for _ in range(count)])

        async def theirs(count: int = count) -> None:
            for _ in range(count):
                async with lite.execute(SELECT) as cursor:
                    await cursor.fetchone()

        async def layered(count: int = count) -> None:
            async with engine.connect() as conn:
                for _ in range(count):
                    (await conn.execute(query)).scalar()

        figures = [await median_microseconds(one) for one in (ours, theirs, layered)]
        print(
            f"{f'{count} statements':<24}{figures[0]:>12.0f}{figures[1]:>12.0f}{figures[2]:>26.0f}"
        )


async def units_a_second(once: Callable[[], Awaitable[object]], writers: int) -> float:
    """Durable units a second of that many writers, each waiting for its own."""

    async def write(count: int) -> None:
        for _ in range(count):
            await once()

    count = max(1, UNITS // writers) if writers > 1 else UNITS // 5
    began = time.perf_counter()
    await asyncio.gather(*(write(count) for _ in range(writers)))
    return writers * count / (time.perf_counter() - began)


async def compare_writes(store: Store, lite: aiosqlite.Connection) -> None:
    """Durable units of five INSERTs."""
    print(f"\n{'durable units a second':<24}{'store':>12}{'aiosqlite':>12}{'ratio':>8}")
    query, lock = text(INSERT), asyncio.Lock()

    def work(change: Change) -> None:
        for _ in range(STATEMENTS_PER_UNIT):
            change.conn.execute(query)

    async def ours() -> None:
        await store.write(work)

    async def theirs() -> None:
        async with lock:  # one connection has one transaction
            await lite.execute("BEGIN IMMEDIATE")
            for _ in range(STATEMENTS_PER_UNIT):
                await lite.execute(INSERT)
            await lite.execute("COMMIT")

    for writers in (1, 50, 200):
        a, b = await units_a_second(ours, writers), await units_a_second(theirs, writers)
        print(f"{f'{writers} writers':<24}{a:>12.0f}{b:>12.0f}{a / b:>8.1f}")


async def measure_sqlite() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("store.db", "lite.db")]
        store = Store(SqliteDialect(paths[0]), lambda event: None)
        await store.write(lambda change: change.conn.execute(text(TABLE)))
        await store.write(lambda change: change.conn.execute(text(INSERT)))
        lite = await aiosqlite.connect(paths[1], isolation_level=None)
        for statement in (*PRAGMAS, TABLE, INSERT):
            await lite.execute(statement)
        engine = create_async_engine(f"sqlite+aiosqlite:///{paths[1]}")
        await compare_reads(store, lite, engine)
        await compare_writes(store, lite)
        await engine.dispose()
        await lite.close()
        await store.close()


async def measure_prompt() -> None:
    """CPU of a key in prompt_toolkit's Application, drawn to a terminal of 80 by 24."""
    screen = io.StringIO()
    output = Vt100_Output(screen, lambda: Size(rows=24, columns=80), term="xterm-256color")
    with create_pipe_input() as keys, create_app_session(input=keys, output=output):
        session: PromptSession[str] = PromptSession("library> ")
        drawn = asyncio.Event()
        session.app.after_render += lambda _: drawn.set()
        asking = asyncio.create_task(session.prompt_async())
        await drawn.wait()
        began = time.process_time()
        for number in range(PROMPT_KEYS):
            drawn.clear()
            keys.send_text(chr(97 + number % 26))
            await drawn.wait()
        took = (time.process_time() - began) / PROMPT_KEYS
        keys.send_text("\r")
        await asking
    print(f"\nkey in prompt_toolkit's Application      {took * 1e6:8.0f} us CPU")


def measure_parsers() -> None:
    """CPU of parsing 64 KiB of text into keys."""
    typed = "the quick brown fox " * (64 * 1024 // 20)
    began = time.process_time()
    Vt100Parser(lambda press: None).feed(typed)
    theirs = time.process_time() - began
    began = time.process_time()
    deque(KeyParser().feed(typed.encode()))
    ours = time.process_time() - began
    print(f"64 KiB of text, Vt100Parser              {theirs * 1e3:8.2f} ms CPU")
    print(f"64 KiB of text, terminal/keys.py         {ours * 1e3:8.2f} ms CPU")


def measure_http() -> None:
    """What httpx adds to a process that has httpx2 already."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", LIBRARY_COST], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(HTTP_RUNS)
    ]
    milliseconds, kibibytes = (
        statistics.median(float(run[column]) for run in runs) for column in (0, 1)
    )
    print(f"\nhttpx beside httpx2: import and a client {milliseconds:8.0f} ms CPU")
    print(f"httpx beside httpx2: memory              {kibibytes:8.0f} KiB")


async def main() -> None:
    await measure_sqlite()
    await measure_prompt()
    measure_parsers()
    measure_http()


if __name__ == "__main__":
    asyncio.run(main())
