"""Baseline: an echo-only ssh server and its clients, in separate processes.

    python -m benchmarks.bare --variant lean        # serve; prints {"port": ...}

Other benchmarks import `Server` and `Clients` from here, to control both and read the server's CPU:

    async with Server("stock") as server, Clients(server.port) as clients:
        before = await server.cpu()
        await clients.do("connect", 200)

Variants: `stock` is unmodified asyncssh with AES-GCM; `lean` uses our LeanConnection; `door` is the
whole of sshwarma.ssh.transport.server with its guards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from typing import Any, Self

import asyncssh
from asyncssh.connection import SSHServerConnectionOptions

from sshwarma.ssh.transport import server as door
from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.connection import LeanConnection
from sshwarma.ssh.transport.interfaces import (
    Channel,
    ChannelHandler,
    ClientLink,
    FailedLogin,
    Peer,
    Rejected,
)

VARIANTS = ("stock", "lean", "door")
GCM = ["aes128-gcm@openssh.com"]
LINE = b"x" * 78 + b"\r\n"
MANY = AdmissionLimits(
    exempt_loopback=True,
    max_pending=5_000,
    max_connections=20_000,
    max_connections_per_key=20_000,
)

channels: dict[Any, None] = {}
"""Open shells of this server process; `say` writes lines to all of them."""


class EchoSession(asyncssh.SSHServerSession[bytes]):
    """Echoes input through asyncssh's own channel interface."""

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._chan = chan

    def pty_requested(self, *_: object) -> bool:
        return True

    def shell_requested(self) -> bool:
        channels[self._chan] = None
        return True

    def data_received(self, data: bytes, datatype: object) -> None:
        self._chan.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        channels.pop(self._chan, None)


class EchoOwner(asyncssh.SSHServer):
    """Accepts every client."""

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return True

    def session_requested(self) -> EchoSession:
        return EchoSession()


class EchoWorld:
    """The same server by our interfaces: authenticator, handler factory, handlers."""

    def is_acceptable(self, username: str, fingerprint: str) -> bool:
        return True

    def left(self, peer: Peer, identity: object, seconds: float) -> None:
        pass

    def failed(self, failure: FailedLogin) -> None:
        pass

    async def enter(self, peer: Peer) -> object:
        return peer.fingerprint

    def shell(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        channels[channel] = None
        return EchoHandler(channel)

    def exec(self, link: ClientLink, channel: Channel, command: str) -> ChannelHandler:
        return EchoHandler(channel)

    def subsystem(self, link: ClientLink, channel: Channel, name: str) -> ChannelHandler | None:
        return None

    def check_forward(self, link: ClientLink, host: str, port: int) -> None:
        raise Rejected("nothing is forwarded here")

    def forward(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        return EchoHandler(channel)


class EchoHandler:
    """Echoes input through our channel interface."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def data(self, data: bytes) -> None:
        self.channel.write(data)

    def eof(self) -> None: ...

    def resized(self, columns: int, rows: int) -> None: ...

    def interrupt(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def closed(self, error: Exception | None) -> None:
        channels.pop(self.channel, None)


async def start(variant: str) -> int:
    """Serve on a free port of 127.0.0.1 and return it."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    if variant == "door":
        world = EchoWorld()
        served = await door.start_ssh_server(
            "127.0.0.1", 0, host_keys=[key], authenticator=world, sessions=world, limits=MANY
        )
        return served.port
    options: dict[str, Any] = {
        "server_factory": EchoOwner,
        "server_host_keys": [key],
        "encryption_algs": GCM,
        "compression_algs": None,
        "encoding": None,
        "line_editor": False,
    }
    if variant == "stock":
        acceptor = await asyncssh.listen("127.0.0.1", 0, backlog=256, **options)
        return int(acceptor.get_port())
    prepared = await SSHServerConnectionOptions.construct(gss_host=None, **options)
    listener = await asyncio.get_running_loop().create_server(
        lambda: LeanConnection(prepared, EchoOwner(), MANY), "127.0.0.1", 0, backlog=256
    )
    return int(listener.sockets[0].getsockname()[1])


async def say(lines: int) -> None:
    """Write lines to every shell, with a turn of the loop after each."""
    for _ in range(lines):
        for channel in channels:
            channel.write(LINE)
        await asyncio.sleep(0)


async def serve(variant: str) -> None:
    """Serve, and execute orders in lines of JSON: ["cpu", 0], ["say", lines]."""
    port = await start(variant)
    _answer({"port": port})
    async for order, count in _orders():
        if order == "say":
            await say(count)
        _answer({"cpu": time.process_time(), "shells": len(channels)})


class Client:
    """One logged-in shell."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.process = process

    async def leave(self) -> None:
        connection = self.process.channel.get_connection()
        connection.close()
        await connection.wait_closed()

    async def echo(self) -> None:
        self.process.stdin.write(b"k")
        await self.process.stdout.readexactly(1)

    async def read(self, lines: int) -> None:
        await self.process.stdout.readexactly(lines * len(LINE))


async def be_clients(port: int) -> None:
    """Run clients on orders from standard input.

    Orders: ["connect", n], ["visit", times], ["echo", keys], ["echo_alone", keys], ["read", lines].
    """
    key = asyncssh.generate_private_key("ssh-ed25519")
    clients: list[Client] = []

    async def connect() -> None:
        connection = await asyncssh.connect(
            *("127.0.0.1", port),
            known_hosts=None,
            config=None,
            username="bench",
            client_keys=[key],
            encryption_algs=GCM,
        )
        process = await connection.create_process(term_type="xterm", encoding=None)
        clients.append(Client(process))

    _answer({"ready": True})
    async for order, count in _orders():
        started = time.perf_counter()
        if order == "connect":
            await _spread(count, lambda _: connect())
        elif order == "visit":  # one after another, each alone
            for _ in range(count):
                await connect()
                await clients.pop().leave()
        elif order == "echo":
            await _spread(count, lambda number: clients[number % len(clients)].echo())
        elif order == "echo_alone":
            times = []
            for number in range(count):
                began = time.perf_counter()
                await clients[number % len(clients)].echo()
                times.append(time.perf_counter() - began)
            _answer({"p50": statistics.median(times)})
            continue
        elif order == "read":
            await asyncio.gather(*(client.read(count) for client in clients))
        _answer({"seconds": time.perf_counter() - started})


async def _spread(count: int, do: Any, workers: int = 8) -> None:
    """Call `do` with each number below `count`, by `workers` tasks, in order."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await do(number)

    await asyncio.gather(*(work() for _ in range(workers)))


class Child:
    """A process with a server or clients, which executes one order at a time."""

    module = "benchmarks.bare"

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self.module, *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        self.hello = await self._hear()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.kill()
        await self._process.wait()

    async def do(self, order: str, argument: object = 0) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([order, argument]).encode() + b"\n")
        return await self._hear()

    async def _hear(self) -> dict[str, Any]:
        assert self._process.stdout
        line = await asyncio.wait_for(self._process.stdout.readline(), 120)
        answer: dict[str, Any] = json.loads(line)
        return answer


class Server(Child):
    """A server of one variant."""

    def __init__(self, variant: str) -> None:
        super().__init__("--variant", variant)

    @property
    def port(self) -> int:
        return int(self.hello["port"])

    async def cpu(self) -> float:
        """Return the CPU seconds that the server has used."""
        return float((await self.do("cpu"))["cpu"])


class Clients(Child):
    """Clients of a bare server."""

    def __init__(self, port: int) -> None:
        super().__init__("--clients-of", str(port))


async def _orders() -> Any:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=VARIANTS, default="lean")
    parser.add_argument("--clients-of", type=int, metavar="PORT")
    chosen = parser.parse_args()
    asyncio.run(be_clients(chosen.clients_of) if chosen.clients_of else serve(chosen.variant))
