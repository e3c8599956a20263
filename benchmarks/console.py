"""What the tabs of browsers cost the server while a model answers.

    python -m benchmarks.console [--tabs 200]

The share of one processor that the server takes while an answer grows 15 times a second in a room
that many tabs show. The baseline, in the same run, is a bare server that writes as many messages
of that size to as many sockets. Then the time from the form with a line to that line in the tab.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

import uvloop

from benchmarks.events import describe_ages
from sshwarma.app import App
from sshwarma.settings import load_settings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import browser_sessions, login_keys
from sshwarma.world.agents import create_agent
from sshwarma.world.browser_sessions import SignInLink
from sshwarma.world.events import StreamEnded, StreamUpdated
from sshwarma.world.identity import read_world_id
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.store import Change
from sshwarma.world.world import World

LIMITS = {
    "SSHWARMA_LIMITS__REQUESTS_PER_10_SECONDS": "10000000",
    "SSHWARMA_LIMITS__LINES_PER_10_SECONDS": "10000000",
}
ADDRESS = {"listen": "127.0.0.1:0"}
SECONDS = 8.0
UPDATES_PER_SECOND = 15
TABS_PER_AGENT = 20
LINES = 100
WORDS = "and so the answer grows by some words each time "


async def serve(tabs: int) -> None:
    """Serve a world with people who are signed in; measure at each line of input."""
    with tempfile.TemporaryDirectory() as home:
        people = 1 + -(-tabs // TABS_PER_AGENT)
        settings = load_settings(data_dir=Path(home), ssh=ADDRESS, http=ADDRESS)
        world = await World.open(Path(home) / "world.db", tool_specs())
        cookies = await world.change(lambda tx: sign_in_people(tx, people))
        name = await world.store.read(read_world_id)
        await world.close()
        app = await App.start(settings)
        print("ready", app.http.port, f"sshwarma-{name}", *cookies, flush=True)
        loop = asyncio.get_running_loop()
        while (line := await loop.run_in_executor(None, sys.stdin.readline)).strip():
            before, begun = time.process_time(), time.monotonic()
            if line.strip() == "answer":
                await answer(app.world)
            else:
                await asyncio.sleep(SECONDS)
            used = time.process_time() - before
            print("share", used / (time.monotonic() - begun), flush=True)
        await app.stop()


def sign_in_people(tx: Change, people: int) -> list[str]:
    """Make people, and sign in a browser of each; return the cookies."""
    cookies = []
    for number in range(people):
        agent = create_agent(tx, f"person{number}", role="owner" if number == 0 else "member")
        key = f"SHA256:{number:043}"
        login_keys.ensure_key(tx, agent.id, key, "ssh-ed25519 AAAA")
        cookies.append(browser_sessions.sign_in(tx, SignInLink(agent.id, key, 0), "", "")[1])
    return cookies


async def answer(world: World) -> None:
    """Let an answer grow."""
    text, author = "", world.agents.find("person0")
    for _ in range(int(SECONDS * UPDATES_PER_SECOND)):
        text += WORDS
        world.publish(StreamUpdated(LOBBY_ID, "turn", author.id, text))
        await asyncio.sleep(1 / UPDATES_PER_SECOND)
    world.publish(StreamEnded(LOBBY_ID, "turn"))


class Tab(asyncio.Protocol):
    """A socket that only counts what it gets."""

    def __init__(self) -> None:
        self.size = 0
        self.rest = b""
        self.came = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Count it."""
        self.size += len(data)
        self.rest = (self.rest + data)[-200_000:]
        self.came.set()


async def open_tab(port: int, cookie: str) -> Tab:
    """Open the socket of a tab in the lobby."""
    loop = asyncio.get_running_loop()
    transport, tab = await loop.create_connection(Tab, "127.0.0.1", port)
    key = base64.b64encode(os.urandom(16)).decode()
    transport.write(
        f"GET /live?in=lobby&after=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Origin: http://127.0.0.1:{port}\r\nCookie: {cookie}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    while b'"here"' not in tab.rest:
        tab.came.clear()
        await tab.came.wait()
    return tab


async def say(port: int, cookie: str, lines: int) -> list[float]:
    """Say lines by the form of the prompt; return the ms until each is in the tab."""
    tab = await open_tab(port, cookie)
    ages = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(lines):
        text = f"line-{number:05}"
        body = urlencode({"text": text}).encode()
        begun = time.monotonic()
        writer.write(
            f"POST /room/lobby HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n"
            f"Origin: http://127.0.0.1:{port}\r\nAccept: text/html;part\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        while text.encode() not in tab.rest:
            tab.came.clear()
            await tab.came.wait()
        ages.append((time.monotonic() - begun) * 1000)
        length = 0
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        await reader.readexactly(length)
    writer.close()
    return ages


async def serve_bare(tabs: int, size: int) -> None:
    """Print the port, wait for the clients, write to all, and print the share."""
    transports: list[asyncio.Transport] = []

    class Bare(asyncio.Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            transports.append(transport)

    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while len(transports) < tabs:
        await asyncio.sleep(0.05)
    before, begun = time.process_time(), time.monotonic()
    for _ in range(int(SECONDS * UPDATES_PER_SECOND)):
        for transport in transports:
            transport.write(size * b"x")
        await asyncio.sleep(1 / UPDATES_PER_SECOND)
    print((time.process_time() - before) / (time.monotonic() - begun), flush=True)


async def measure_bare(tabs: int, size: int) -> float:
    """Return the share of a processor that a bare server takes."""
    command = [sys.executable, "-m", "benchmarks.console", "--bare", str(tabs), str(size)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    for _ in range(tabs):
        await asyncio.get_running_loop().create_connection(Tab, "127.0.0.1", port)
    share = float(await process.stdout.readline())
    await process.wait()
    return share


async def main() -> None:
    """Print the shares, and the times of lines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tabs", type=int, default=200)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bare", type=int, nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        await serve(asked.serve)
        return
    if asked.bare:
        await serve_bare(*asked.bare)
        return
    command = [sys.executable, "-m", "benchmarks.console", "--serve", str(asked.tabs)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, **LIMITS},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    line = b""
    while not line.startswith(b"ready "):  # the log of the server comes before
        line = await process.stdout.readline()
        assert line, "the server did not start"
    port, name, *secrets = line.decode().split()[1:]
    cookies = [f"{name}={secret}" for secret in secrets]

    async def measure(line: str) -> float:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{line}\n".encode())
        while not (said := await process.stdout.readline()).startswith(b"share "):
            assert said, "the server has ended"
        return float(said.split()[1])

    ages = await say(int(port), cookies[0], LINES)
    one = await measure("answer")
    tabs = [
        await open_tab(int(port), cookies[1 + number // TABS_PER_AGENT])
        for number in range(asked.tabs)
    ]
    idle = await measure("idle")
    before = sum(tab.size for tab in tabs)
    many = await measure("answer")
    size = (sum(tab.size for tab in tabs) - before) // (
        len(tabs) * int(SECONDS * UPDATES_PER_SECOND)
    )
    bare = await measure_bare(len(tabs), size)
    process.stdin.write(b"\n")
    await process.wait()
    print(f"a bare server, {len(tabs)} sockets, {size} bytes a message: {bare:.1%} of a processor")
    print(f"{len(tabs)} tabs, idle: {idle:.1%}; an answer with one tab: {one:.1%}")
    print(f"{len(tabs)} tabs, the same answer: {many:.1%}, {many / bare:.1f} times the bare server")
    print(f"a line, from the form to the tab that sent it: {describe_ages(ages)}")


if __name__ == "__main__":
    uvloop.run(main())
