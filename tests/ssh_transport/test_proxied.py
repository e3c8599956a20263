"""A balancer in front: for whom a connection counts, and what is refused."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from ipaddress import ip_address

import asyncssh
import pytest

from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import Serve, Ssh, World, finish, within
from support.waiting import SECONDS, until

from .test_before_login import Socket
from .test_proxy_header import LOCAL, PROXY, UNSPECIFIED, tcp, version_2

VERSION = b"SSH-2.0-sshwarma\r\n"
BEHIND = {"proxy_from": ("127.0.0.1",)}
CHECK = version_2(LOCAL, UNSPECIFIED, b"")
CLIENT = tcp(ip_address("203.0.113.7"), 4000)

Through = Callable[[SshServer, bytes], Awaitable[asyncssh.SSHClientConnection]]


@pytest.fixture
async def through(key: asyncssh.SSHKey) -> AsyncIterator[Through]:
    """Log in over a connection that begins with a header."""
    async with AsyncExitStack() as stack:

        async def log_in(server: SshServer, header: bytes) -> asyncssh.SSHClientConnection:
            link = socket.create_connection(("127.0.0.1", server.port), SECONDS)
            link.sendall(header)
            link.setblocking(False)
            connection = await within(
                asyncssh.connect(
                    sock=link, username="alice", client_keys=[key], known_hosts=None, config=None
                )
            )
            stack.callback(connection.abort)
            return connection

        yield log_in


async def check(server: SshServer, header: bytes = CHECK) -> bytes:
    """Read the banner and go by a reset, as HAProxy's check does; return what came."""
    link = await Socket.open(server)
    plain = link.writer.transport.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.writer.write(header)
    try:
        banner = await within(link.reader.readline())
    except ConnectionResetError:
        banner = b""
    await link.close()
    return banner


@pytest.mark.parametrize(
    "header",
    [CLIENT, b"PROXY TCP4 203.0.113.7 127.0.0.1 4000 22\r\n", tcp(ip_address("2001:db8::7"), 4000)],
)
async def test_login_is_of_the_address_in_the_header(
    header: bytes, serve: Serve, world: World, through: Through
) -> None:
    server = await serve(**BEHIND)
    client = await through(server, header)
    assert (await within(client.run("exit 3"))).exit_status == 3
    (peer,) = world.entered
    assert (peer.address, peer.port) in [("203.0.113.7", 4000), ("2001:db8::7", 4000)]


async def test_header_that_comes_byte_by_byte_is_read(serve: Serve) -> None:
    server = await serve(**BEHIND)
    link = await Socket.open(server)
    for byte in CLIENT:
        link.writer.write(bytes([byte]))
        await link.writer.drain()
    assert await within(link.reader.readline()) == VERSION
    assert [client.address for client in server._clients] == ["203.0.113.7"]
    await link.close()


@pytest.mark.parametrize("header", [CLIENT, b"PROXY TCP4 203.0.113.7 127.0.0.1 4000 22\r\n"])
async def test_header_from_elsewhere_is_a_bad_banner(header: bytes, serve: Serve) -> None:
    server = await serve(proxy_from=("127.0.0.2", "10.0.0.0/8"))
    link = await Socket.open(server)
    link.writer.write(header)
    assert (await link.said()).startswith(VERSION)
    await until(lambda: server.connections == 0)
    assert server.counters.auth_failed == 1
    assert list(server.admission._addresses) == ["127.0.0.1"]
    await link.close()


async def test_client_of_ssh_without_a_header_reads_why(serve: Serve, ssh: Ssh) -> None:
    server = await serve(**BEHIND)
    done = await finish(await ssh(server, "exit 0"))
    assert done.status == 255
    assert b"must begin with a PROXY header, because it is in ssh.proxy_from" in done.err
    assert server.counters.refused["proxy_header"] == 1
    assert not server.admission._addresses


@pytest.mark.parametrize(
    "received", [b"", CLIENT[:-1], b"GET / HTTP/1.1\r\n\r\n", CLIENT[:13] + b"x" * 9]
)
async def test_connection_without_a_header_is_closed_and_logged(
    received: bytes, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    server = await serve(**BEHIND, login_seconds=0.2)
    link = await Socket.open(server)
    link.writer.write(received)
    assert await link.said() == b""
    assert server.counters.refused["proxy_header"] == 1
    assert "ssh.no_proxy_header" in capsys.readouterr().out
    assert not server.proxied and not server.admission._addresses
    await link.close()


async def test_connections_that_wait_for_a_header_are_bounded(serve: Serve) -> None:
    server = await serve(**BEHIND, max_pending=3)
    links = [await Socket.open(server) for _ in range(8)]
    await until(lambda: server.counters.refused["proxy_header"] == 5)
    assert len(server.proxied) == 3
    assert server.admission.pending == 0
    for link in links[:5]:
        assert await link.said() == b""
    for link in links:
        await link.close()
    await until(lambda: not server.proxied)


async def test_checks_are_greeted_and_count_as_nothing(serve: Serve) -> None:
    server = await serve(**BEHIND, max_free_failures=1, max_pending_per_address=1)
    for _ in range(40):
        assert await check(server) == VERSION
    assert not server.counters.refused and not server.counters.accepted
    assert not server.admission._addresses and not server.admission.connections
    await until(lambda: not server.refused._open)


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 127.0.0.1 127.0.0.1 4000 22\r\n",
        b"PROXY UNKNOWN\r\n",
        tcp(ip_address("127.0.0.1"), 4000),
        version_2(PROXY, UNSPECIFIED, b""),
    ],
)
async def test_check_that_names_the_balancer_or_nobody_is_no_failure(
    header: bytes, serve: Serve
) -> None:
    """The first version of the protocol has no check of its own."""
    server = await serve(**BEHIND, max_free_failures=1)
    for _ in range(10):
        assert await check(server, header) == VERSION
        await until(lambda: server.connections == 0)
    assert not server.counters.auth_failed and not server.counters.refused


async def test_client_behind_a_balancer_is_shut_out_alone(
    serve: Serve, world: World, through: Through
) -> None:
    world.known = set()
    server = await serve(**BEHIND, max_free_failures=1)
    began = server.admission._clock()
    server.admission._clock = lambda: began
    for _ in range(4):
        with pytest.raises((asyncssh.Error, OSError)):
            await through(server, CLIENT)
        await until(lambda: server.connections == 0)
    assert server.counters.refused["failures"] == 2
    assert {failure.address for failure in world.failures} == {"203.0.113.7"}

    world.known = None
    other = await through(server, tcp(ip_address("203.0.113.8"), 4000))
    assert (await within(other.run("exit 0"))).exit_status == 0
    assert await check(server) == VERSION


@pytest.mark.parametrize("header", [CHECK, b"PROXY TCP4 127.0.0.1 127.0.0.1 4000 22\r\n"])
async def test_check_of_a_closed_door_fails_and_clients_read_why(
    header: bytes, serve: Serve
) -> None:
    server = await serve(**BEHIND)
    server.closed_for = "this server restarts; connect again later"
    assert await check(server, header) == b""
    link = await Socket.open(server)
    link.writer.write(CLIENT)
    assert b"this server restarts" in await link.said()
    assert server.counters.refused["closed"] == 1
    server.closed_for = ""
    assert await check(server, header) == VERSION
    await link.close()


async def test_stop_ends_connections_that_wait_for_a_header(serve: Serve) -> None:
    server = await serve(**BEHIND)
    link = await Socket.open(server)
    await until(lambda: len(server.proxied) == 1)
    await within(server.close())
    assert await link.said() == b""
    assert not server.proxied
    await link.close()
