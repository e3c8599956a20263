"""A call of a tool in a sandbox, beside one over plain MCP stdio.

    python -m benchmarks.toolsets

The same worker runs in each variant. Plain is one process for all calls, as an MCP host has it;
cold is a sandbox that is started for the call; spare is one that was started before it. Variants
alternate in one run, and medians are printed with their ratios. Then: the snapshot of 10,000 files
that nobody has changed, the import of 100 files, and how late a timer of the server is while
four sandboxes take all they get.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from sshwarma.app import App
from sshwarma.sandbox.host import SandboxHost, SandboxUser
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import SandboxProgram
from sshwarma.settings import Settings
from sshwarma.toolsets.archive import read_archive
from sshwarma.toolsets.bundle import Bundle, read_bundle
from sshwarma.toolsets.worker_process import (
    TOOLSET_PATH,
    ToolsetCode,
    Workers,
    describe_toolset,
    list_tools,
)
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.run_folder import Folder
from sshwarma.world.caller import Caller
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.resources import resource_dir

ROUNDS = 40
MANY_FILES = 10_000
IMPORTED_FILES = 100
BURN_SECONDS = 10.0
USER = SandboxUser("bench")

MODULE = "def add(a: int, b: int) -> int:\n    return a + b\n"
BURN = """
import itertools
for number in itertools.count():
    open(str(number % 50), "w").write("x")
"""


def make_archive(files: int) -> bytes:
    """Return a toolset with one tool and as many files as asked for."""
    manifest = (
        'manifest_version: "1"\nid: bench\nname: Bench\nversion: "1"\n'
        "tools:\n  - id: add\n    entrypoint: tools.bench:add\n"
    )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toolset.yaml", manifest)
        archive.writestr("tools/bench.py", MODULE)
        for number in range(files - 2):
            archive.writestr(f"assets/{number}.txt", f"{number}\n" * 100)
    return data.getvalue()


def plain_server(bundle: Bundle, folder: Path, workspace: Path) -> StdioServerParameters:
    """Return how another host starts the worker, as an MCP server over stdio."""
    manifest = bundle.manifest
    config = describe_toolset(
        manifest.id, manifest.version, list_tools(bundle),
        folder=str(folder), workspace=str(workspace),
    )  # fmt: skip
    worker = resource_dir("embedded") / "toolset" / "worker.py"
    file = folder.with_name("config.json")
    file.write_text(json.dumps(config))
    words = ["-I", str(worker), str(file)]
    return StdioServerParameters(command=sys.executable, args=words)


async def measure_calls(top: Path, host: SandboxHost) -> None:
    """Print what a call takes in each variant."""
    bundle = read_bundle(read_archive(make_archive(2)))
    folder, workspace = top / "ts", top / "ws"
    workspace.mkdir()
    for path, content in bundle.contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    manifest = bundle.manifest
    code = ToolsetCode(manifest.id, manifest.version, {TOOLSET_PATH: folder}, list_tools(bundle))
    warm, cold = Workers(host), Workers(host)
    arguments = {"a": 2, "b": 3}

    async def ask(workers: Workers) -> None:
        params = {"name": "add", "arguments": arguments}
        answer = await workers.ask(code, workspace, "room", "tools/call", params, 30.0, USER)
        assert answer.result["_meta"]["value"] == 5

    times: dict[str, list[float]] = {"plain": [], "spare": [], "cold": []}
    server = plain_server(bundle, folder, workspace)
    async with Client(stdio_client(server)) as client:

        async def call_plain() -> None:
            assert (await client.call_tool("add", arguments)).structured_content == {"result": 5}

        await call_plain()
        await ask(warm)
        for _ in range(ROUNDS):
            await wait_for_spare(warm)
            times["plain"].append(await timed(call_plain))
            times["spare"].append(await timed(lambda: ask(warm)))
            await wait_for_spare(warm)
            times["cold"].append(await timed(lambda: ask(cold)))
            await cold.spares.end_all()
    await warm.spares.end_all()
    await cold.spares.end_all()
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in medians.items():
        best = min(times[name])
        print(f"call, {name:5}  {seconds * 1000:7.1f} ms (best {best * 1000:.1f})")
    print(f"spare / plain  {medians['spare'] / medians['plain']:.1f}x")
    print(f"cold - plain   {(medians['cold'] - medians['plain']) * 1000:.0f} ms")


async def wait_for_spare(workers: Workers) -> None:
    """Wait until a worker waits, and has imported what it needs."""
    while not len(workers.spares):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.7)


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Return the seconds that work takes."""
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def measure_snapshot(top: Path) -> None:
    """Print what the snapshot of unchanged files takes."""
    blobs = BlobStore(top / "blobs")
    folder = Folder(top / "many", blobs)
    folder.materialize({})
    for number in range(MANY_FILES):
        place = folder.path / f"d{number % 100}"
        place.mkdir(exist_ok=True)
        (place / f"{number}.txt").write_text(f"{number}\n")
    await asyncio.sleep(0.1)
    folder.snapshot()
    await asyncio.sleep(0.1)
    found = [await timed(lambda: asyncio.to_thread(folder.snapshot)) for _ in range(10)]
    print(f"snapshot of {MANY_FILES:,} unchanged files  {statistics.median(found) * 1000:.0f} ms")


async def measure_import(top: Path) -> None:
    """Print what the import of a toolset takes, by the verb."""
    settings = Settings(
        data_dir=top / "data", ssh={"listen": "127.0.0.1:0"}, http={"listen": "off"}
    )
    app = await App.start(settings)
    try:
        caller = Caller(
            world=app.world, services=app.services, limits=settings.limits,
            agent=next(agent for agent in app.world.agents if agent.role == "owner"),
            room_id=LOBBY_ID, door="ssh",
        )  # fmt: skip
        archive = make_archive(IMPORTED_FILES)
        seconds = await timed(lambda: app.services.toolsets.install(caller, archive))
        print(f"import of {IMPORTED_FILES} files  {seconds * 1000:.0f} ms")
    finally:
        await app.stop()


async def measure_delay(top: Path, host: SandboxHost) -> None:
    """Print how late a timer is while sandboxes burn."""

    @contextlib.asynccontextmanager
    async def burning(number: int) -> AsyncIterator[None]:
        workspace = top / f"burn{number}"
        workspace.mkdir()
        words = ["/usr/bin/env", "python3", "-c", BURN]
        program = SandboxProgram(Profile(workspace), words, cpu_seconds=60)
        async with host.run(program, USER):
            yield

    async def list_delays(seconds: float) -> list[float]:
        delays = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            delays.append(time.perf_counter() - began - 0.005)
        return sorted(delays)

    for count in (0, 4):
        async with contextlib.AsyncExitStack() as stack:
            for number in range(count):
                await stack.enter_async_context(burning(number))
            delays = await list_delays(BURN_SECONDS)
        middle, late = (delays[int(len(delays) * part)] * 1000 for part in (0.5, 0.99))
        print(f"a timer with {count} sandboxes is late by {middle:.1f} ms, p99 {late:.1f} ms")


async def main() -> None:
    """Run all measurements."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        host = SandboxHost(resource_dir("embedded") / "sandbox", top, top / "devices")
        obstacle = await host.check()
        if obstacle is not None:
            print(f"no sandbox here: {obstacle.reason}")
            return
        await measure_calls(top, host)
        await measure_snapshot(top)
        await measure_delay(top, host)
        await measure_import(top)


if __name__ == "__main__":
    asyncio.run(main())
