"""Time from the commit of a row to each listener of `GET /api/v1/events`.

    python -m benchmarks.events [--listeners 200]

The baselines are one listener, and a bare server that writes as many bytes to each of as many
sockets, both in the same run. Times are from the row's own time, which is taken before its
transaction is committed, in whole milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.mcp_server import running, serve
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.agents import create_agent
from sshwarma.world.store import Change
from sshwarma.world.tokens import issue_token
from sshwarma.world.world import World

ROWS = 150
EACH = 4
"""Streams of one agent."""

PAUSE_SECONDS = 0.05

_AT = re.compile(rb'\ndata: .*?"at":(\d+)')
"""The time of a row; to read all of it as JSON would take the processor from the server."""


BARE_BODY = b"x" * 450
"""About as much as an event has besides its time."""


class BareServer(asyncio.Protocol):
    """A server that only writes: what any server needs for this on this machine."""

    def __init__(self, transports: list[asyncio.Transport]) -> None:
        self._transports = transports

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the connection."""
        self._transports.append(transport)


async def serve_bare(listeners: int) -> None:
    """Print the port, wait for the listeners, and write rows to all of them."""
    transports: list[asyncio.Transport] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: BareServer(transports), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while len(transports) < listeners:
        await asyncio.sleep(0.05)
    for _ in range(ROWS):
        await asyncio.sleep(PAUSE_SECONDS)
        event = b'event: row\ndata: {"x":"%s","at":%d}\n\n' % (BARE_BODY, time.time() * 1000)
        for transport in transports:
            transport.write(event)
    await asyncio.sleep(0.5)  # until all is read


async def measure_bare(listeners: int) -> str:
    """Return the ages of what a bare server writes, as a line."""
    command = [sys.executable, "-m", "benchmarks.events", "--bare", str(listeners)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    heard = Listeners(f"127.0.0.1:{int(await process.stdout.readline())}")
    loop = asyncio.get_running_loop()
    for _ in range(listeners):
        await loop.create_connection(lambda: _Listener(heard), heard.host, heard.port)
    await process.wait()
    return f"{listeners:4} sockets of a bare server: {describe_ages(heard.ages)}"


def describe_ages(ages: list[float]) -> str:
    """Return percentiles in words."""
    ordered = sorted(ages)
    parts = (f"p{share} {ordered[int(len(ages) * share / 100)]:.1f} ms" for share in (50, 90, 99))
    return ", ".join(parts)


async def make_tokens(path: Path, agents: int) -> list[str]:
    """Make a world with agents, and return a token of each."""
    world = await World.open(path, tool_specs())

    def work(tx: Change) -> list[str]:
        secrets = []
        for number in range(agents):
            agent = create_agent(tx, f"bot{number}", role="owner" if number == 0 else "member")
            secrets.append(issue_token(tx, agent.id, "web", None, None)[1])
        return secrets

    secrets = await world.change(work)
    await world.close()
    return secrets


class Listeners:
    """Streams that note how old each row is when it arrives, in ms."""

    def __init__(self, address: str) -> None:
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.ages: list[float] = []
        self.begun = 0

    async def listen(self, token: str) -> None:
        """Read one stream until the task is cancelled."""
        loop = asyncio.get_running_loop()
        head = (
            f"GET /api/v1/events?types=row HTTP/1.1\r\nHost: {self.host}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        )
        transport, _ = await loop.create_connection(lambda: _Listener(self), self.host, self.port)
        transport.write(head.encode())
        try:
            await asyncio.Event().wait()
        finally:
            transport.close()

    async def say(self, token: str, rows: int) -> None:
        """Say rows, one after the other, with a pause between them."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        for number in range(rows):
            body = json.dumps({"text": f"row {number}"}).encode()
            head = (
                f"POST /api/v1/verbs/say HTTP/1.1\r\nHost: {self.host}\r\n"
                f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            length = 0
            while (line := await reader.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            await reader.readexactly(length)
            await asyncio.sleep(PAUSE_SECONDS)
        writer.close()


class _Listener(asyncio.Protocol):
    """One stream, read as bytes: by lines it takes more time than in the server."""

    def __init__(self, heard: Listeners) -> None:
        self._heard = heard
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """Note the events that are whole."""
        now = time.time() * 1000
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if (found := _AT.search(event)) is not None:
                self._heard.ages.append(now - int(found[1]))
            elif b"event: start" in event:
                self._heard.begun += 1


async def measure(address: str, tokens: list[str], listeners: int) -> str:
    """Return the ages of rows at all listeners, as a line."""
    heard = Listeners(address)
    tasks = [
        asyncio.create_task(heard.listen(tokens[1 + number // EACH])) for number in range(listeners)
    ]
    while heard.begun < listeners:
        await asyncio.sleep(0.05)
    await heard.say(tokens[0], ROWS)
    while len(heard.ages) < ROWS * listeners:
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return f"{listeners:4} listeners: {describe_ages(heard.ages)}"


async def main() -> None:
    """Print the ages with one listener and with many."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    listeners = asked.listeners
    if asked.bare:
        await serve_bare(asked.bare)
        return
    print(await measure_bare(listeners))
    with tempfile.TemporaryDirectory() as home:
        data_dir = Path(home)
        tokens = await make_tokens(data_dir / "world.db", 1 + -(-listeners // EACH))
        async with running(*serve(home)) as facts:
            for count in (1, listeners, 1, listeners):
                print(await measure(facts["http"], tokens, count))


if __name__ == "__main__":
    uvloop.run(main())
