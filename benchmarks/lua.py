"""Overhead of a Lua run, and the cost of a lost worker.

    python -m benchmarks.lua

The baseline is a script that does nothing, with an empty snapshot: two frames through pipes and a
fresh Lua state. "server" is the CPU time of this process alone, the cost to the event loop.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from typing import Any

from sshwarma.wrap.host import LuaHost, LuaScript, LuaTimeout, LuaWorkerError
from sshwarma.wrap.process import WorkerProcess

RUNS = 500
NOTHING = [LuaScript("nothing", "function main() end")]
WRAP = [
    LuaScript(
        "wrap",
        """
        local function main(s)
          local layers = {}
          local names = {}
          for i, tool in ipairs(s.tools) do names[i] = tool.name .. ": " .. tool.description end
          table.sort(names)
          layers[1] = { name = "tools", text = table.concat(names, "\\n") }
          local texts = {}
          for i, thing in ipairs(s.data) do texts[i] = thing.name .. "\\n" .. thing.content end
          layers[2] = { name = "equipped", text = table.concat(texts, "\\n\\n") }
          local rows, kept, size = s.rows, {}, 0
          for i = #rows.seq, 1, -1 do
            size = size + #rows.content[i]
            if size > 12000 then break end
            if rows.kind[i] == "chat" then kept[#kept + 1] = rows.seq[i] end
          end
          layers[3] = { name = "log", rows = kept }
          return layers
        end
        return main""",
    )
]
CALLS = [
    LuaScript("calls", "function main(s) for i = 1, 100 do host.call('x', {a = i}) end end"),
]
LOOP = [
    LuaScript(
        "loop",
        """
        local function spin() while true do end end
        function main() while true do pcall(spin) end end""",
    )
]


def columns(count: int) -> dict[str, list[Any]]:
    return {
        "seq": list(range(count)),
        "author": [f"person{n % 7}" for n in range(count)],
        "kind": ["chat"] * count,
        "turn": [n // 3 for n in range(count)],
        "parent": [None] * count,
        "content": [
            f"a line of talk of the usual length, number {n}, or so." for n in range(count)
        ],
    }


def room() -> dict[str, Any]:
    """20 tools, 50 data things, 200 rows."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {
        "tools": [
            {"name": f"ns:tool{n}", "description": "does a thing " * 5, "schema": schema}
            for n in range(20)
        ],
        "data": [{"name": f"prompt:{n}", "content": "some words " * 20} for n in range(50)],
        "rows": columns(200),
    }


async def answer(name: str, arguments: dict[str, Any]) -> Any:
    return arguments


async def measure(
    what: str,
    host: LuaHost,
    scripts: list[LuaScript],
    snapshot: Mapping[str, Any],
    runs: int = RUNS,
) -> None:
    took = []
    await host.run(scripts, "main", snapshot, call=answer)
    cpu = time.process_time()
    for _ in range(runs):
        began = time.perf_counter()
        await host.run(scripts, "main", snapshot, call=answer)
        took.append(time.perf_counter() - began)
    cpu = (time.process_time() - cpu) / runs
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    print(
        f"{what:<44} p50 {p50 * 1e3:7.2f} ms  p99 {p99 * 1e3:7.2f} ms  server {cpu * 1e3:6.2f} ms"
    )


async def replacing(host: LuaHost) -> None:
    started = []
    for _ in range(10):
        began = time.perf_counter()
        worker = await WorkerProcess.start(host.limits)
        started.append(time.perf_counter() - began)
        await worker.wait_closed()
    print(f"{'start of a worker':<44} p50 {statistics.median(started) * 1e3:7.2f} ms")
    over, after = [], []
    for _ in range(5):
        began = time.perf_counter()
        try:
            await host.run(LOOP, "main", {})
        except LuaTimeout:
            over.append(time.perf_counter() - began - host.limits.run_seconds)
        began = time.perf_counter()
        await host.run(NOTHING, "main", {})
        after.append(time.perf_counter() - began)
    print(f"{'kill of a loop, after its time limit':<44} max {max(over) * 1e3:7.2f} ms")
    print(
        f"{'the next run, with the spare worker':<44} p50 {statistics.median(after) * 1e3:7.2f} ms"
    )
    lost = []
    for _ in range(10):
        for worker in host._idle:
            worker.kill()
            await worker._process.wait()
        began = time.perf_counter()
        try:
            await host.run(NOTHING, "main", {})
        except LuaWorkerError:
            continue
        lost.append(time.perf_counter() - began)
    print(
        f"{'a run after losing all idle workers':<44} p50 {statistics.median(lost) * 1e3:7.2f} ms"
    )


async def main() -> None:
    began = time.perf_counter()
    host = await LuaHost.start()
    print(f"{'start of a host':<44}     {(time.perf_counter() - began) * 1e3:7.2f} ms")
    await measure("empty script (baseline)", host, NOTHING, {})
    await measure("20 tools, 50 things, 200 rows", host, WRAP, room())
    await measure("the same snapshot, empty script", host, NOTHING, room())
    await measure("10,000 rows as columns, empty script", host, NOTHING, columns(10_000), 50)
    await measure(
        "10,000 rows as columns, wrapped", host, WRAP, room() | {"rows": columns(10_000)}, 50
    )
    await measure("100 calls to the server", host, CALLS, {}, 50)
    await replacing(host)
    await host.close()


if __name__ == "__main__":
    asyncio.run(main())
