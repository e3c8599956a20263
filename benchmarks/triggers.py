"""Time from a line to the start of its trigger, and to the answer.

    python -m benchmarks.triggers [--lines 40]

The baseline is the call of a tool with the same script in the same run, as its caller sees it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.events import make_tokens
from benchmarks.hooks import Connection
from benchmarks.mcp_server import running, serve

SCRIPT = 'return "heard"'
LINE_PAUSE_SECONDS = 0.6
"""A little more than the pace of the runs of one trigger."""


def describe(took: list[float]) -> str:
    """Return the percentiles of times, as a text."""
    took.sort()
    parts = (f"p{share} {took[int(len(took) * share / 100)]:.1f} ms" for share in (50, 90, 99))
    return ", ".join(parts)


async def call(connection: Connection, verb: str, **values: Any) -> Any:
    """Call a verb; return its result."""
    return (await connection.post(f"/api/v1/verbs/{verb}", values))[1]["result"]


async def main() -> None:
    """Print the times of triggers, and of calls."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=40)
    lines = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as home:
        owner_token, member_token = await make_tokens(Path(home) / "world.db", 2)
        async with running(*serve(home)) as facts:
            owner = Connection(facts["http"], owner_token)
            await call(owner, "tool_new", name="echo", text=SCRIPT)
            calls = []
            for _ in range(lines):
                began = time.perf_counter()
                await call(owner, "run", name="lobby:echo")
                calls.append((time.perf_counter() - began) * 1000)
                await asyncio.sleep(LINE_PAUSE_SECONDS)
            await call(owner, "trigger_new", name="echo", text=f"-- @on row:chat\n{SCRIPT}")
            member = Connection(facts["http"], member_token)
            for number in range(lines):
                await call(member, "say", text=f"line {number}")
                await asyncio.sleep(LINE_PAUSE_SECONDS)
            owner = Connection(facts["http"], owner_token)  # an idle one was closed
            entries = (await call(owner, "history_show", n=2 * lines))["entries"]
            runs = (await call(owner, "trigger_log", name="echo"))["runs"]
    at = {row["text"]: row["at"] for row in entries if row["text"].startswith("line ")}
    said = [row["at"] for row in entries if row["text"] == "heard"]
    starts = [float(run["at"]) - row for run, row in zip(runs, sorted(at.values()), strict=True)]
    heard = [float(row) - line for row, line in zip(said, sorted(at.values()), strict=True)]
    print(f"call of a tool:       {describe(calls)}")
    print(f"line to start:        {describe(starts)}")
    print(f"line to what is said: {describe(heard)}")


if __name__ == "__main__":
    asyncio.run(main())
