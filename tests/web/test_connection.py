"""Connections to the http port that keep others out on purpose, and fail to."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sshwarma.common.refusals import read_refusals
from sshwarma.settings import HttpSettings, ReloadableSettings
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.registry import tool_specs
from sshwarma.web import api, connection
from sshwarma.web.api import HttpApi
from sshwarma.web.http import HttpServer
from sshwarma.web.metrics import MetricsPage
from sshwarma.world import agents, tokens
from sshwarma.world.caller import Caller
from sshwarma.world.databases import Location
from sshwarma.world.world import World
from support.services import make_services
from support.waiting import until

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
async def world(database: Location) -> AsyncIterator[World]:
    made = await World.open(database, tool_specs())
    yield made
    await made.close()


@pytest.fixture
def settings() -> ReloadableSettings:
    return ReloadableSettings()


@pytest.fixture
async def port(world: World, settings: ReloadableSettings) -> AsyncIterator[int]:
    http = HttpServer(
        world,
        MetricsPage(),
        HttpApi(world, make_services(world), ReloadableSettings(), LineRateLimiter(1_000)),
        settings=settings,
    )
    http.bind("127.0.0.1", 0)
    await http.serve()
    yield http.port
    await http.stop()


async def begin_post(
    world: World,
    port: int,
    name: str,
    body: bytes = b"",
    address: str = "127.0.0.1",
    more: str = "",
) -> Link:
    """A request of an agent: its head with more headers, and a part of its body."""
    agent = world.agents.find_by_name(name)
    if agent is None:
        agent = await world.change(lambda tx: agents.create_agent(tx, name))
    _, secret = await world.change(lambda tx: tokens.issue_token(tx, agent.id, "", None, None))
    link = await connect(
        port,
        f"POST /api/v1/verbs/look HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Length: 2\r\nExpect: 100-continue\r\n{more}\r\n".encode()
        + body,
        address,
    )
    assert b" 100 " in await asyncio.wait_for(link[0].readuntil(b"\r\n\r\n"), 20)
    return link


async def connect(port: int, said: bytes = b"", address: str = "127.0.0.1") -> Link:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write(said)
    await writer.drain()
    return reader, writer


async def ask(link: Link) -> bytes:
    """The status line of a request, whose answer is read whole."""
    link[1].write(HEALTH)
    head = await asyncio.wait_for(link[0].readuntil(b"\r\n\r\n"), 20)
    length = next(
        line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    await link[0].readexactly(int(length.partition(b":")[2]))
    return head.partition(b"\r\n")[0]


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"])
async def test_slow_request_head_gets_408(
    port: int, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HTTP_HEAD_TIMEOUT_SECONDS", 1.5)
    reader, writer = await connect(port, said)
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()


async def test_second_request_on_a_connection_has_the_same_timeout(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HTTP_HEAD_TIMEOUT_SECONDS", 1.5)
    link = await connect(port)
    assert b" 200 " in await ask(link)
    link[1].write(b"GET /hea")
    answer = await asyncio.wait_for(link[0].read(), 20)
    assert answer.startswith(b"HTTP/1.1 408 ")
    link[1].close()


async def test_connection_over_the_limit_gets_503(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HTTP_CONNECTIONS", 3)
    monkeypatch.setattr(connection, "SAFE_HTTP_INPUT_SECONDS", 1_000.0)
    links = [await connect(port, address=f"127.0.0.{number}") for number in (1, 2, 3)]
    for link in links:
        assert b" 200 " in await ask(link)
    refused = read_refusals().get("http_connections", 0)
    reader, writer = await connect(port, address="127.0.0.4")
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"Too many connections (limit 3)." in answer
    assert read_refusals()["http_connections"] == refused + 1
    assert b" 200 " in await ask(links[0])
    for one in (*links, (reader, writer)):
        one[1].close()


async def test_new_connection_takes_the_place_of_the_slowest_of_the_agent_with_most(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HTTP_CONNECTIONS", 4)
    monkeypatch.setattr(connection, "SAFE_HTTP_INPUT_SECONDS", 0.0)
    ben = await begin_post(world, port, "ben", b"{")
    ann = [await begin_post(world, port, "ann", b"{") for _ in range(2)]
    idle = await connect(port)
    new = await connect(port)
    assert b" 200 " in await ask(new)
    answer = await asyncio.wait_for(ann[0][0].read(), 20)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"All 4 connections are taken, and the request was not complete." in answer
    for link in (ben, ann[1]):
        link[1].write(b"}")
        head = await asyncio.wait_for(link[0].readuntil(b"\r\n\r\n"), 20)
        assert head.startswith(b"HTTP/1.1 200 ")
    assert b" 200 " in await ask(idle)
    for link in (ben, *ann, idle, new):
        link[1].close()


async def test_connection_that_is_answered_keeps_its_place(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HTTP_CONNECTIONS", 1)
    monkeypatch.setattr(connection, "SAFE_HTTP_INPUT_SECONDS", 0.0)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def invoke_slowly(caller: Caller, name: str, arguments: dict[str, Any]) -> Any:
        asked.set()
        await answered.wait()
        return await invoke(caller, name, arguments)

    monkeypatch.setattr(api, "invoke", invoke_slowly)
    ann = await begin_post(world, port, "ann", b"{}")
    await asyncio.wait_for(asked.wait(), 20)
    new = await connect(port)
    assert (await asyncio.wait_for(new[0].read(), 20)).startswith(b"HTTP/1.1 503 ")
    answered.set()
    head = await asyncio.wait_for(ann[0].readuntil(b"\r\n\r\n"), 20)
    assert head.startswith(b"HTTP/1.1 200 ")
    for link in (ann, new):
        link[1].close()


@pytest.fixture
def distant(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of this machine that the server does not take for loopback."""
    monkeypatch.setattr(connection, "is_proxy", lambda address, _: address == "127.0.0.1")
    return "127.0.0.2"


async def test_silent_connections_of_one_address_keep_nobody_out(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even for two seconds, and not their own address."""
    monkeypatch.setattr(connection, "MAX_HTTP_CONNECTIONS", 20)
    monkeypatch.setattr(connection, "SAFE_HTTP_INPUT_SECONDS", 1_000.0)
    slow = await connect(port, b"GET /healthz HTTP/1.1\r\n", "127.0.0.3")
    silent = [await connect(port) for _ in range(40)]
    for address in ("127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.4"):
        asked = await connect(port, address=address)
        assert b" 200 " in await ask(asked)
        asked[1].close()
    first = await asyncio.wait_for(silent[0][0].read(), 20)
    assert first.startswith(b"HTTP/1.1 503 ")
    slow[1].write(b"Host: localhost\r\n\r\n")
    head = await asyncio.wait_for(slow[0].readuntil(b"\r\n\r\n"), 20)
    assert head.startswith(b"HTTP/1.1 200 "), "the request of another address keeps its place"
    for link in (*silent, slow):
        link[1].close()


async def test_held_bodies_of_one_agent_keep_nobody_out(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HTTP_CONNECTIONS", 4)
    monkeypatch.setattr(connection, "SAFE_HTTP_INPUT_SECONDS", 1_000.0)
    held = [await begin_post(world, port, "ann", b"{") for _ in range(4)]
    other = await connect(port, address="127.0.0.2")
    assert b" 200 " in await ask(other)
    assert (await asyncio.wait_for(held[0][0].read(), 20)).startswith(b"HTTP/1.1 503 ")
    for link in (*held, other):
        link[1].close()


async def test_one_address_has_a_limit_of_connections(
    world: World,
    port: int,
    settings: ReloadableSettings,
    distant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.http = HttpSettings(max_connections_per_address=3)
    silent = [await connect(port, address=distant) for _ in range(3)]
    new = await connect(port, address=distant)
    assert b" 200 " in await ask(new), "its own silent connection made room"
    answer = await asyncio.wait_for(silent[0][0].read(), 20)
    assert b"Too many connections from your address (limit 3), and the request was" in answer
    settings.http = HttpSettings(max_connections_per_address=4)  # as a reload does
    fourth = await connect(port, address=distant)
    assert b" 200 " in await ask(silent[1]) and b" 200 " in await ask(fourth)
    for link in (*silent, new, fourth):
        link[1].close()


async def test_address_whose_connections_are_all_in_use_is_refused(
    world: World,
    port: int,
    settings: ReloadableSettings,
    distant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.http = HttpSettings(max_connections_per_address=1)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def invoke_slowly(caller: Caller, name: str, arguments: dict[str, Any]) -> Any:
        asked.set()
        await answered.wait()
        return await invoke(caller, name, arguments)

    monkeypatch.setattr(api, "invoke", invoke_slowly)
    ann = await begin_post(world, port, "ann", b"{}", distant)
    await asyncio.wait_for(asked.wait(), 20)
    new = await connect(port, address=distant)
    refused = await asyncio.wait_for(new[0].read(), 20)
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"Too many connections from your address (limit 1)." in refused
    other = await connect(port)
    assert b" 200 " in await ask(other)
    answered.set()
    head = await asyncio.wait_for(ann[0].readuntil(b"\r\n\r\n"), 20)
    assert head.startswith(b"HTTP/1.1 200 ")
    for link in (ann, new, other):
        link[1].close()


async def test_address_that_a_proxy_names_has_the_limit_and_the_proxy_has_none(
    world: World, port: int, settings: ReloadableSettings
) -> None:
    settings.http = HttpSettings(max_connections_per_address=2)

    async def ask_for(address: str) -> bytes:
        link = await connect(port)
        link[1].write(HEALTH[:-2] + f"X-Forwarded-For: {address}\r\n\r\n".encode())
        head = await asyncio.wait_for(link[0].readuntil(b"\r\n\r\n"), 20)
        link[1].close()
        return head.partition(b"\r\n")[0]

    named = "X-Forwarded-For: 2001:db8::{}\r\n"
    held = [await begin_post(world, port, "ann", more=named.format(number)) for number in (1, 2)]
    assert b" 429 " in await ask_for("2001:db8::3"), "an IPv6 client has a whole network"
    assert b" 200 " in await ask_for("2001:db8:1::1")
    held.append(await begin_post(world, port, "ann", more=named.format("1:0:0:0:1")))
    held[0][1].write(b"{}")
    assert b" 200 " in await asyncio.wait_for(held[0][0].readuntil(b"\r\n\r\n"), 20)
    assert b" 200 " in await ask_for("2001:db8::3")
    for link in held:
        link[1].close()


BIG = b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def read_nothing(port: int) -> socket.socket:
    """A client that asks for more than buffers hold, and reads nothing of it."""
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.to_thread(link.connect, ("127.0.0.1", port))
    await asyncio.to_thread(link.sendall, BIG * 200)
    return link


def is_dropped(link: socket.socket) -> bool:
    """Whether a connection was reset, though nothing was read."""
    waiting = select.poll()
    waiting.register(link, 0)
    return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in waiting.poll(0))


async def test_client_that_reads_nothing_is_dropped(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HTTP_WRITE_TIMEOUT_SECONDS", 0.5)
    link = await read_nothing(port)
    await until(lambda: is_dropped(link))
    link.close()


async def test_clients_that_read_nothing_keep_nobody_out(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HTTP_CONNECTIONS", 3)
    links = [await read_nothing(port) for _ in range(3)]

    async def is_answered() -> bool:
        link = await connect(port)
        status = await ask(link)
        link[1].close()
        return b" 200 " in status

    async with asyncio.timeout(20):
        while not await is_answered():  # until the buffers are full
            pass
    for one in links:
        one.close()
