"""Latency from a model's token to terminals, and cost of composing its context.

    python -m benchmarks.models

A provider in this process writes a token and records the time; watchers in another process, with
the same clock, record when each saw it. The baseline is the same byte forwarded by bare asyncssh
with our fast send path. The context is composed in a room of 20 tools, 50 data things and 10,000
rows, in a small world and in a big one; its baseline is a Lua script that does nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

from benchmarks import bare, crowd
from benchmarks.bare import GCM, Child, _answer, _orders
from benchmarks.lua import NOTHING
from benchmarks.store import fill
from sshwarma.settings import LimitSettings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, equipment, rows, things, turns
from sshwarma.world.caller import Caller
from sshwarma.world.projects import ProjectPaths
from sshwarma.world.request_services import RequestServices
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer
from sshwarma.wrap.host import LuaHost

ROUNDS = 40
TOKENS = 6
TOKEN_SECONDS = 0.12
WARM_UP = 5
WATCHERS = (1, 50)
COMPOSES = 200
ROWS = 10_000
THINGS = 50
ROWS_A_TURN = 20
BIG = 50_000
AUTHORS = ("alice", "bob", "carol")


class Provider:
    """An OpenAI-compatible server whose answers are TOKENS marks each.

    The first mark comes TOKEN_SECONDS after the headers. `written` has the time of each mark.
    """

    def __init__(self) -> None:
        self.written: dict[str, float] = {}
        self._answers = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(
                    line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if line
                )
                await reader.readexactly(int(fields.get("content-length", 0)))
                await self._answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        number, self._answers = self._answers, self._answers + 1
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for token in range(TOKENS):
            await asyncio.sleep(TOKEN_SECONDS)
            mark = mark_of(number, token)
            self.written[mark] = time.perf_counter()
            writer.write(_event({"content": f"{mark} "}, None))
        writer.write(_event({}, "stop") + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()


def mark_of(answer: int, token: int) -> str:
    """Make a mark of letters only, which no frame splits into two parts."""
    return "q" + "".join(chr(97 + int(digit)) for digit in f"{answer:04d}{token:02d}") + "q"


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return _chunk(f"data: {json.dumps(body | {'choices': [choice]})}\n\n".encode())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


# The watchers, in a separate process.


class Watcher:
    """A terminal that records when it first saw each mark."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.process = process
        self.saw: dict[str, float] = {}
        self.waits: set[str] = set()
        self.done = asyncio.Event()
        self._left = b""
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while data := await self.process.stdout.read(65_536):
            now = time.perf_counter()
            text = self._left + data
            for mark in [mark for mark in self.waits if mark.encode() in text]:
                self.saw[mark] = now
                self.waits.discard(mark)
            self._left = text[-20:]
            if not self.waits:
                self.done.set()

    def wait_for(self, marks: list[str]) -> None:
        self.saw, self.waits, self._left = {}, set(marks), b""
        self.done.clear()


async def be_watchers(port: int, keys_file: str) -> None:
    """Run watchers on the orders of standard input.

    An order is a JSON list: ["connect", n], ["watch", marks], ["ask", text] or ["saw", 0].
    """
    keys = json.loads(Path(keys_file).read_text()) if keys_file else []
    people: list[Watcher] = []
    key = asyncssh.generate_private_key("ssh-ed25519")
    _answer({"ready": True})
    async for order, what in _orders():
        answer: dict[str, Any] = {}
        if order == "connect":
            for number in range(len(people), what):
                connection = await asyncssh.connect(
                    *("127.0.0.1", port),
                    known_hosts=None,
                    config=None,
                    username=crowd.name_of(number),
                    client_keys=[asyncssh.import_private_key(keys[number]) if keys else key],
                    encryption_algs=GCM,
                )
                process = await connection.create_process(
                    term_type="xterm", term_size=(120, 40), encoding=None
                )
                people.append(Watcher(process))
                if keys:  # a world: it accepts keys once it shows its prompt
                    people[-1].wait_for(["lobby> "])
                    await people[-1].done.wait()
        elif order == "watch":
            for person in people:
                person.wait_for(what)
        elif order == "ask":
            people[0].process.stdin.write(what.encode() + b"\r")
        elif order == "saw":
            await asyncio.gather(*(person.done.wait() for person in people))
            answer["saw"] = [person.saw for person in people]
        _answer(answer)


class Watchers(Child):
    """Control of the watchers' process.

    `keys` is the file of their private keys, or empty if the server accepts any key.
    """

    module = "benchmarks.models"

    def __init__(self, port: int, keys: str) -> None:
        super().__init__("--watch", str(port), "--keys", keys)


# The baseline: bare ssh that forwards bytes.


async def be_relay() -> None:
    """Serve ssh, and forward input from another port to every shell."""
    port = await bare.start("lean")

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            for channel in bare.channels:
                channel.write(data)
        writer.close()

    source = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    _answer({"port": port, "source": source.sockets[0].getsockname()[1]})
    async for _ in _orders():
        _answer({"shells": len(bare.channels)})


class Relay(Child):
    """Control of the relay's process."""

    module = "benchmarks.models"

    def __init__(self) -> None:
        super().__init__("--relay")


async def floor(watching: int) -> list[float]:
    """Measure seconds from a byte to each terminal through bare ssh."""
    taken: list[float] = []
    async with Relay() as relay, Watchers(relay.hello["port"], "") as watchers:
        await watchers.do("connect", watching)
        while (await relay.do("shells"))["shells"] < watching:
            await asyncio.sleep(0.01)
        _, writer = await asyncio.open_connection("127.0.0.1", relay.hello["source"])
        for number in range(ROUNDS + WARM_UP):
            mark = mark_of(number, 0)
            await watchers.do("watch", [mark])
            await asyncio.sleep(TOKEN_SECONDS)
            wrote = time.perf_counter()
            writer.write(f"\r{mark} ".encode())
            saw = (await watchers.do("saw"))["saw"]
            if number >= WARM_UP:
                taken += [person[mark] - wrote for person in saw]
        writer.close()
    return taken


async def streamed(watching: int) -> tuple[list[float], list[float]]:
    """Measure latencies of a model's answer in a world: first tokens and later ones."""
    provider = Provider()
    server = await asyncio.start_server(provider, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = {"name": "model", "kind": "compatible", "model": "m"}
    os.environ["SSHWARMA_MODELS"] = json.dumps([model | {"base_url": f"http://127.0.0.1:{port}"}])
    first: list[float] = []
    later: list[float] = []
    async with (
        crowd.World(max(watching, 2)) as world,
        Watchers(world.port, str(world.path / "keys.json")) as watchers,
    ):
        await watchers.do("connect", watching)
        for number in range(ROUNDS + WARM_UP):
            marks = [mark_of(number, token) for token in range(TOKENS)]
            await watchers.do("watch", marks)
            await watchers.do("ask", "@model say something")
            saw = (await watchers.do("saw"))["saw"]
            if number >= WARM_UP:
                first += [person[marks[0]] - provider.written[marks[0]] for person in saw]
                later += [
                    person[mark] - provider.written[mark] for person in saw for mark in marks[1:]
                ]
            await asyncio.sleep(0.1)
    server.close()
    return first, later


# The context.


async def a_room(world: World) -> Caller:
    """Make a model in a room of 20 tools, THINGS equipped things and ROWS rows."""
    people = [
        await world.change(lambda tx, name=name: agents.create_agent(tx, name)) for name in AUTHORS
    ]
    model = await world.change(lambda tx: agents.create_agent(tx, "model", kind="model"))

    def work(tx: Any) -> None:
        made = [
            things.create_thing(tx, "lobby", "data", f"prompt:p{n}", content="some words " * 20)
            for n in range(THINGS)
        ]
        equipment.equip_things(tx, "lobby", made)
        for number in range(ROWS):
            who = people[number % len(people)].id
            turn_id = None
            if number % ROWS_A_TURN == 0:
                turn_id = turns.open_turn(tx, "lobby", model.id, who).id
                turns.close_turn(tx, turn_id, "completed")
            text = f"a line of talk of the usual length, number {number}, or so."
            rows.append_row(tx, "lobby", "chat", text, author_id=who, turn_id=turn_id)

    await world.change(work)
    return Caller(world, RequestServices(), LimitSettings(), model, "lobby", "model")


async def timed(run: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return p50 and p99 of a call in milliseconds."""
    taken = []
    await run()
    for _ in range(COMPOSES):
        began = time.perf_counter()
        await run()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


async def composed() -> None:
    host = await LuaHost.start()
    lua = await timed(lambda: host.run(NOTHING, "main", {}))
    print(f"{'a Lua script that does nothing (baseline)':<52} p50 {lua[0]:6.2f}  p99 {lua[1]:6.2f}")
    with tempfile.TemporaryDirectory() as directory:
        world = await World.open(Path(directory) / "world.db", tool_specs())
        composer = ContextComposer(host, ProjectPaths(world, Path.cwd(), is_pinned=True))
        caller = await a_room(world)
        load = await world.loadout("lobby", caller.agent.id)
        tools, data = len(load.usable_tools), len(load.data)

        async def compose() -> int:
            return (await composer.compose(caller, "…", "alice", 2**62)).tokens

        small = await timed(compose)
        what = f"wrap(): {tools} tools, {data} data things, {ROWS} rows"
        print(
            f"{what:<52} p50 {small[0]:6.2f}  p99 {small[1]:6.2f}  base x {small[0] / lua[0]:.1f}"
            "  target < 10 ms"
        )
        await fill(world, BIG, "more")
        big = await timed(compose)
        what = f"the same in a world with {BIG} more things"
        print(
            f"{what:<52} p50 {big[0]:6.2f}  p99 {big[1]:6.2f}"
            f"  small x {big[0] / small[0]:.2f}  target 1"
        )
        five = await compose()
        await world.change(lambda tx: things.set_metadata(tx, "lobby", context_size=0))
        whole = await compose()
        what = "tokens with a window of 5 turns, and of all turns"
        print(f"{what:<52} {five} and {whole}, x {whole / five:.1f}")
        await world.close()
    await host.close()


async def main() -> None:
    print("latency from a provider's byte to a watcher's terminal, ms")
    for watching in WATCHERS:
        bottom = await floor(watching)
        first, later = await streamed(watching)
        for what, taken in (("bare ssh", bottom), ("first token", first), ("later token", later)):
            ranks = statistics.quantiles(taken, n=100)
            ratio = statistics.median(taken) / statistics.median(bottom)
            target = "  target p99 < 15" if what == "first token" else ""
            print(
                f"{watching:>3} watching, {what:<14} p50 {ranks[49] * 1e3:7.2f}"
                f"  p99 {ranks[98] * 1e3:7.2f}  base x {ratio:.1f}{target}",
                flush=True,
            )
    print("\ncomposing a context, ms")
    await composed()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watch", type=int, metavar="PORT")
    parser.add_argument("--keys", default="")
    parser.add_argument("--relay", action="store_true")
    chosen = parser.parse_args()
    if chosen.watch:
        asyncio.run(be_watchers(chosen.watch, chosen.keys))
    else:
        asyncio.run(be_relay() if chosen.relay else main())
