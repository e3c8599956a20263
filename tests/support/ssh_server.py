"""A real server on 127.0.0.1:0 with a tiny world, and clients of both kinds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import asyncssh
import pytest

from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.interfaces import (
    Channel,
    ChannelHandler,
    ClientLink,
    FailedLogin,
    Peer,
    Rejected,
)
from sshwarma.ssh.transport.server import SshServer, start_ssh_server
from support.waiting import SECONDS

T = TypeVar("T")


async def within(what: Awaitable[T], seconds: float = SECONDS) -> T:
    return await asyncio.wait_for(what, seconds)


@dataclass
class Program:
    """A program in a channel: echoes its input, and keeps it."""

    channel: Channel
    command: str | None = None
    received: list[tuple[Any, ...]] = field(default_factory=list)

    def _tell(self, *event: Any) -> None:
        self.received.append(event)

    def count(self, kind: str) -> int:
        return sum(event[0] == kind for event in self.received)

    def data(self, data: bytes) -> None:
        self._tell("data", data)
        if data == b"crash":
            raise RuntimeError("as asked")
        self.channel.write(data)

    def eof(self) -> None:
        self._tell("eof")
        if self.command == "cat":
            self.channel.exit(0)

    def resized(self, columns: int, rows: int) -> None:
        self._tell("resized", columns, rows)

    def interrupt(self) -> None:
        self._tell("interrupt")

    def pause(self) -> None:
        self._tell("pause")

    def resume(self) -> None:
        self._tell("resume")

    def closed(self, error: Exception | None) -> None:
        self._tell("closed", error)


@dataclass
class World:
    """A gate that knows everyone by default, and sessions that keep their programs."""

    known: set[str] | None = None
    refusal: str = ""
    admit: asyncio.Event | None = None
    entered: list[Peer] = field(default_factory=list)
    ended: list[Peer] = field(default_factory=list)
    failures: list[FailedLogin] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)

    def is_acceptable(self, username: str, fingerprint: str) -> bool:
        return self.known is None or fingerprint in self.known

    def left(self, peer: Peer, identity: object, seconds: float) -> None:
        self.ended.append(peer)

    def failed(self, failure: FailedLogin) -> None:
        self.failures.append(failure)

    async def enter(self, peer: Peer) -> object:
        if self.admit:
            await self.admit.wait()
        if self.refusal:
            raise Rejected(self.refusal)
        self.entered.append(peer)
        return f"agent of {peer.fingerprint}"

    def _run(self, channel: Channel, command: str | None) -> Program:
        program = Program(channel, command)
        self.programs.append(program)
        return program

    def shell(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        columns, rows = channel.size
        channel.write(f"{link.peer.username} {channel.term} {columns}x{rows}\r\n".encode())
        return self._run(channel, None)

    def exec(self, link: ClientLink, channel: Channel, command: str) -> ChannelHandler:
        match command.split():
            case ["exit", status]:
                channel.write(b"bye\n")
                channel.exit(int(status))
            case ["env"]:
                channel.write(repr(dict(sorted(channel.env.items()))).encode())
                channel.exit(0)
            case ["refuse"]:
                raise Rejected("not that one")
            case ["crash"]:
                raise RuntimeError("as asked")
        return self._run(channel, command)

    def subsystem(self, link: ClientLink, channel: Channel, name: str) -> ChannelHandler | None:
        return self._run(channel, name) if name == "mcp" else None

    def check_forward(self, link: ClientLink, host: str, port: int) -> None:
        if (host, port) != ("console", 80):
            raise Rejected("only console:80")

    def forward(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        return self._run(channel, "forward")


Serve = Callable[..., Awaitable[SshServer]]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
async def serve(world: World) -> AsyncIterator[Serve]:
    """Start a server, with other limits if named; close all after the test, empty."""
    async with AsyncExitStack() as stack:

        async def start(**limits: Any) -> SshServer:
            server = await start_ssh_server(
                "127.0.0.1",
                0,
                host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
                authenticator=world,
                sessions=world,
                limits=replace(AdmissionLimits(), **limits),
            )
            stack.push_async_callback(within, server.close())
            return server

        yield start


@pytest.fixture
async def server(serve: Serve) -> SshServer:
    return await serve()


Connect = Callable[..., Awaitable[asyncssh.SSHClientConnection]]


@pytest.fixture
async def connect(key: asyncssh.SSHKey) -> AsyncIterator[Connect]:
    """Log in with asyncssh's client."""
    async with AsyncExitStack() as stack:

        async def start(server: SshServer, **options: Any) -> asyncssh.SSHClientConnection:
            options = {"username": "alice", "client_keys": [key], **options}
            connection = await within(
                asyncssh.connect(
                    *("127.0.0.1", server.port), known_hosts=None, config=None, **options
                )
            )
            stack.push_async_callback(_hang_up, connection)
            return connection

        yield start


async def _hang_up(connection: asyncssh.SSHClientConnection) -> None:
    connection.abort()
    await within(connection.wait_closed())


@dataclass
class Finished:
    status: int
    out: bytes
    err: bytes


Ssh = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def ssh(tmp_path: Path, key: asyncssh.SSHKey) -> AsyncIterator[Ssh]:
    """Start the stock client."""
    identity = tmp_path / "id_ed25519"
    identity.touch(mode=0o600)
    key.write_private_key(identity)
    key.write_public_key(tmp_path / "id_ed25519.pub")
    options = (
        *("-F", "/dev/null", "-i", str(identity), "-o", "IdentitiesOnly=yes"),
        *("-o", f"UserKnownHostsFile={tmp_path / 'known_hosts'}", "-o", "LogLevel=INFO"),
        *("-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes"),
    )
    clean = {k: v for k, v in os.environ.items() if k not in {"SSH_AUTH_SOCK", "LC_ALL", "LANG"}}
    running: list[asyncio.subprocess.Process] = []

    async def start(
        server: SshServer, *arguments: str, env: dict[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *("ssh", *options, "-p", str(server.port), "-l", "alice"),
            *arguments[:-1],
            "127.0.0.1",
            *arguments[-1:],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**clean, **(env or {})},
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.returncode is None:
            process.kill()
        await within(process.communicate())


async def finish(process: asyncio.subprocess.Process, stdin: bytes = b"") -> Finished:
    out, err = await within(process.communicate(stdin))
    assert process.returncode is not None
    return Finished(process.returncode, out, err)
