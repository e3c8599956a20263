"""Clients on a real server: creates agents, starts `sshwarma serve`, logs in.

Server and clients run in processes of their own; the server's CPU and memory are read from /proc.
Other benchmarks use this module.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

from benchmarks.bare import GCM, Child, _answer, _orders

SETTINGS = """
[ssh]
max_connections = 20000
max_connections_per_address = 20000
max_connections_per_key = 20000
max_pending = 5000
max_pending_per_address = 5000
limit_loopback = false
[limits]
lines_per_10_seconds = 1000000
"""


async def make_world(data_dir: Path, people: int) -> list[str]:
    """Make a world with `people` members; return their private keys."""
    from sshwarma.admin.open_world import open_world
    from sshwarma.settings import load_settings
    from sshwarma.world import login_keys, things

    world = await open_world(load_settings(data_dir=data_dir))
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(people)]

    def register(tx: Any) -> None:
        for number, key in enumerate(keys):
            public = key.export_public_key().decode()
            # Created as things; `agents.create_agent` compares each name with all others.
            agent = things.create_thing(
                tx, "agents", "agent", name_of(number), metadata={"prefs": {"history": "0"}}
            )
            login_keys.add_key(tx, agent.id, key.get_fingerprint(), public)

    await world.change(register)
    await world.close()
    return [key.export_private_key().decode() for key in keys]


def name_of(number: int) -> str:
    return f"person{number:04d}"


class World:
    """A server process with a crowd's agents in it."""

    def __init__(self, people: int) -> None:
        self._people = people

    async def __aenter__(self) -> World:
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name)
        keys = await make_world(self.path / "data", self._people)
        (self.path / "keys.json").write_text(json.dumps(keys))
        (self.path / "sshwarma.toml").write_text(SETTINGS)
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sshwarma.cli", "serve"),
            *("--config", str(self.path / "sshwarma.toml"), "--data-dir", str(self.path / "data")),
            *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout
        ready = (await asyncio.wait_for(self._process.stdout.readline(), 30)).decode()
        addresses = dict(word.split("=") for word in ready.split()[1:])
        self.port = int(addresses["ssh"].rpartition(":")[2])
        self.http = int(addresses["http"].rpartition(":")[2])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        await self._process.wait()
        self._directory.cleanup()

    def cpu(self) -> float:
        """Return the CPU seconds used by all threads, in ns resolution unlike `stat`."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def memory(self) -> float:
        """Return the server's own memory in KiB."""
        for text in Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines():
            if text.startswith("Pss:"):
                return float(text.split()[1])
        raise RuntimeError("no Pss in smaps_rollup")

    async def metrics(self) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        return text


class Crowd(Child):
    """The clients of a World."""

    module = "benchmarks.crowd"

    def __init__(self, world: World) -> None:
        super().__init__(str(world.port), str(world.path / "keys.json"))


class Person:
    """One logged-in terminal, which counts marks in its output."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.process = process
        self.seen = 0
        self._mark = b""
        self._left = b""
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while data := await self.process.stdout.read(65_536):
            if self._mark:
                text = self._left + data
                self.seen += text.count(self._mark)
                self._left = text[-(len(self._mark) - 1) :] if len(self._mark) > 1 else b""
                if self._mark in self._left:
                    self._left = b""
                self._changed.set()

    def watch(self, mark: bytes) -> None:
        self._mark, self._left, self.seen = mark, b"", 0

    async def until(self, times: int) -> None:
        while self.seen < times:
            self._changed.clear()
            await self._changed.wait()

    def type(self, text: str) -> None:
        self.process.stdin.write(text.encode())


class Clients:
    """The crowd's clients. The methods that are not private are the orders."""

    def __init__(self, port: int, keys: list[str]) -> None:
        self._port = port
        self._keys = keys
        self._people: list[Person] = []

    async def _connect(self, number: int) -> None:
        connection = await asyncssh.connect(
            *("127.0.0.1", self._port),
            known_hosts=None,
            config=None,
            username=name_of(number),
            client_keys=[asyncssh.import_private_key(self._keys[number])],
            encryption_algs=GCM,
        )
        process = await connection.create_process(
            term_type="xterm", term_size=(120, 40), encoding=None
        )
        person = Person(process)
        person.watch(b"Exits:")
        self._people.append(person)
        await person.until(1)

    async def connect(self, count: int) -> dict[str, Any]:
        numbers = iter(range(len(self._people), count))

        async def work() -> None:
            for number in numbers:
                await self._connect(number)

        await asyncio.gather(*(work() for _ in range(8)))
        return {}

    async def visit(self, times: int) -> dict[str, Any]:
        """Connect and leave, one after another, each alone."""
        for _ in range(times):
            await self._connect(0)
            connection = self._people.pop().process.channel.get_connection()
            connection.close()
            await connection.wait_closed()
        return {}

    async def look(self, count: int) -> dict[str, Any]:
        times = []
        for number in range(count):
            person = self._people[number % len(self._people)]
            person.watch(b"Exits:")
            began = time.perf_counter()
            person.type("/look\r")
            await person.until(1)
            times.append(time.perf_counter() - began)
        return {"p50": statistics.median(times)}

    async def talk(self, count: tuple[int, int]) -> dict[str, Any]:
        talkers, lines = count
        people = self._people
        for person in people:
            person.watch(b"@~#")
        for person in people[:talkers]:
            person.type(
                "".join(f"line {n} of somebody's burst of talk @~#\r" for n in range(lines))
            )
        extra = [lines if number < talkers else 0 for number in range(len(people))]
        # Talkers see their own keys too, and so more marks; do not wait for them.
        await asyncio.gather(
            *(p.until(talkers * lines) for p, own in zip(people, extra, strict=True) if not own)
        )
        return {}

    async def talk_all(self, lines: int) -> dict[str, Any]:
        people = self._people
        for person in people:
            person.watch(b"@~#")
        for n in range(lines):
            for number, person in enumerate(people):
                person.type(f"line {n} of somebody among all who talk @~#\r")
                if number % 10 == 0:
                    await asyncio.sleep(0)
        await asyncio.gather(*(person.until(len(people) * lines) for person in people))
        return {}

    async def type(self, keys: int) -> dict[str, Any]:
        for number in range(keys):
            self._people[number % len(self._people)].type("x")
            if number % 50 == 0:
                await asyncio.sleep(0)
        for person in self._people:
            person.type("\x15")
        return {}


async def be_crowd(port: int, keys_file: Path) -> None:
    """Run the crowd's clients on orders from standard input.

    Orders: ["connect", n], ["visit", times], ["look", times], ["talk", [talkers, lines]],
    ["talk_all", lines], ["type", keys].
    """
    crowd = Clients(port, json.loads(keys_file.read_text()))
    orders: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {
        "connect": crowd.connect,
        "visit": crowd.visit,
        "look": crowd.look,
        "talk": crowd.talk,
        "talk_all": crowd.talk_all,
        "type": crowd.type,
    }
    _answer({"ready": True})
    async for order, count in _orders():
        started = time.perf_counter()
        answer = await orders[order](count)
        _answer({**answer, "seconds": time.perf_counter() - started})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("keys", type=Path)
    chosen = parser.parse_args()
    asyncio.run(be_crowd(chosen.port, chosen.keys))
