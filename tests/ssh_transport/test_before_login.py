"""Strangers before a login: silence, floods, garbage, guesses.

What they cost is bounded, and the honest client is still served.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import asyncssh
import pytest

from sshwarma.ssh.transport import refusal
from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import Connect, Serve, Ssh, World, finish, within
from support.waiting import until


class Socket:
    """A bare TCP connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, server: SshServer) -> Socket:
        return cls(*await within(asyncio.open_connection("127.0.0.1", server.port)))

    async def said(self) -> bytes:
        """Everything the server says until it closes."""
        try:
            return await within(self.reader.read())
        except ConnectionResetError:
            return b""

    async def close(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)


async def test_silent_connection_is_dropped_after_login_seconds(serve: Serve) -> None:
    server = await serve(login_seconds=0.1)
    silent = await Socket.open(server)
    assert await silent.said() == b"SSH-2.0-sshwarma\r\n"
    await until(lambda: server.connections == 0)
    assert server.counters.auth_failed == 0
    await silent.close()


async def test_unfinished_handshake_is_dropped_after_login_seconds(serve: Serve) -> None:
    server = await serve(login_seconds=0.1)
    slow = await Socket.open(server)
    slow.writer.write(b"SSH-2.0-Slow\r\n")
    assert (await slow.said()).startswith(b"SSH-2.0-sshwarma\r\n")
    await until(lambda: server.connections == 0)
    await slow.close()


async def test_pending_connections_per_address_are_limited(serve: Serve) -> None:
    server = await serve(max_pending_per_address=3, first_byte_seconds=60, handshake_seconds=60)
    held = [await Socket.open(server) for _ in range(3)]
    await until(lambda: server.connections == 3)
    extra = await Socket.open(server)
    assert b"too many connections" in await extra.said()
    assert server.counters.refused["pending_per_address"] == 1
    for socket in [*held, extra]:
        await socket.close()
    await until(lambda: server.connections == 0)


async def test_pending_connections_of_all_addresses_are_limited(serve: Serve) -> None:
    server = await serve(
        max_pending=3, exempt_loopback=True, first_byte_seconds=60, handshake_seconds=60
    )
    held = [await Socket.open(server) for _ in range(3)]
    await until(lambda: server.connections == 3)
    extra = await Socket.open(server)
    assert b"too many connections" in await extra.said()
    assert server.counters.refused["pending"] == 1
    for socket in [*held, extra]:
        await socket.close()


async def test_total_connections_are_limited(serve: Serve, connect: Connect) -> None:
    server = await serve(max_connections=1)
    client = await connect(server)
    extra = await Socket.open(server)
    assert b"too many connections" in await extra.said()
    assert (await within(client.run("exit 0"))).exit_status == 0
    await extra.close()


async def test_hundreds_of_silent_sockets_do_not_block_a_client(
    serve: Serve, connect: Connect
) -> None:
    server = await serve()
    # Not a thousand: each takes a file descriptor, and many machines give 1024.
    silent = await asyncio.gather(*(Socket.open(server) for _ in range(300)))
    most = server.limits.max_pending_per_address
    assert server.connections <= most
    now = asyncio.get_running_loop().time
    # The places are held by those who have said nothing; they yield once that is plain.
    silent_since = now()
    await until(lambda: now() - silent_since > server.limits.first_byte_seconds)
    client = await connect(server)
    assert (await within(client.run("exit 0"))).exit_status == 0
    assert server.counters.refused["made_room"] >= 1
    for socket in silent:
        await socket.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"SSH-1.99-Old\r\n" + b"\0" * 64,
        b"SSH-1.5-Older\r\n",
        b"\x16\x03\x01" + b"\xff" * 500 + b"\n",
        b"SSH-2.0-" + b"\xff\xfe" * 20 + b"\r\n",
        b"SSH-2.0-" + b"x" * 10_000_000,
        b"SSH-2.0-Ok\r\n\xff\xff\xff\xff" + b"\xff" * 100,
        b"SSH-2.0-Ok\r\n" + b"\0\0\0\x0c\x04\x14" + b"\0" * 10,
        b"SSH-2.0-Ok\r\n" + b"\0\0\0\x0c\x0a\x32" + b"\0" * 10,
        b"SSH-2.0-Ok\r\n" + b"\0\0\0\0" * 4,
        b"\r\n" * 5_000,
    ],
)
async def test_garbage_is_disconnected_and_clients_are_still_served(
    garbage: bytes, server: SshServer, connect: Connect
) -> None:
    socket = await Socket.open(server)
    socket.writer.write(garbage)
    await socket.said()
    await until(lambda: server.connections == 0)
    await socket.close()
    assert server.counters.crashed == 0
    assert (await within((await connect(server)).run("exit 0"))).exit_status == 0


async def test_address_with_repeated_failures_is_locked_out(
    serve: Serve, world: World, connect: Connect, key: asyncssh.SSHKey
) -> None:
    world.known = set()
    server = await serve(max_free_failures=2)
    began = time.monotonic()
    server.admission._clock = lambda: began  # however long the tries take, it is shut meanwhile
    for _ in range(4):
        with pytest.raises((asyncssh.Error, OSError)):
            await connect(server)
        await until(lambda: server.connections == 0)
    assert server.counters.auth_failed == 3
    assert server.counters.refused["failures"] == 1

    world.known = {key.get_fingerprint()}
    async with AsyncExitStack() as stack:
        server.admission._clock = lambda: began + server.limits.max_lockout_seconds
        client = await connect(server)
        stack.callback(client.abort)
        assert (await within(client.run("exit 0"))).exit_status == 0


async def test_stock_client_shows_why_its_address_is_shut_out(
    serve: Serve, ssh: Ssh, world: World
) -> None:
    world.known = set()
    server = await serve(max_free_failures=1)
    began = time.monotonic()
    server.admission._clock = lambda: began
    for _ in range(2):
        assert b"Permission denied" in (await finish(await ssh(server, "exit 0"))).err
        await until(lambda: server.connections == 0)
    for _ in range(5):
        done = await finish(await ssh(server, "exit 0"))
        assert done.status == 255
        assert b"too many logins from your address have failed" in done.err
    await until(lambda: not server.refused._open)


async def test_refused_connections_that_stay_open_are_bounded(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal, "MAX_REFUSED_OPEN", 3)
    server = await serve(max_connections=1, first_byte_seconds=60, handshake_seconds=60)
    first = await Socket.open(server)
    await until(lambda: server.connections == 1)
    sockets = [await Socket.open(server) for _ in range(6)]
    for socket in sockets:
        assert b"too many connections" in await socket.said()
    assert len(server.refused._open) <= 3
    await until(lambda: not server.refused._open)  # dropped, though no client has closed
    for socket in [first, *sockets]:
        await socket.close()


async def test_refused_client_that_goes_on_sending_is_dropped(serve: Serve) -> None:
    server = await serve(max_connections=1, first_byte_seconds=60, handshake_seconds=60)
    first = await Socket.open(server)
    await until(lambda: server.connections == 1)
    flood = await Socket.open(server)
    flood.writer.write(b"x" * 4 * refusal.MAX_REFUSED_INPUT_BYTES)
    began = time.monotonic()
    await until(lambda: server.counters.refused["connections"] and not server.refused._open)
    assert time.monotonic() - began < refusal.REFUSAL_SECONDS
    for socket in (first, flood):
        await socket.close()


async def test_flood_of_refused_connections_is_logged_once(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    server = await serve(
        max_pending_per_address=1,
        first_byte_seconds=60,
        handshake_seconds=60,
        log_window_seconds=60,
    )
    sockets = [await Socket.open(server) for _ in range(30)]
    await until(lambda: server.counters.refused["pending_per_address"] == 29)
    assert capsys.readouterr().out.count("ssh.refused") == 1
    for socket in sockets:
        await socket.close()
