"""Connections to the http port that keep others out on purpose, and fail to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from sshwarma.settings import LimitSettings
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.registry import tool_specs
from sshwarma.web import connection
from sshwarma.web.api import HttpApi
from sshwarma.web.http import HttpServer
from sshwarma.world.world import World
from support.services import make_services

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.fixture
async def port(world_file: Path) -> AsyncIterator[int]:
    world = await World.open(world_file, tool_specs())
    http = HttpServer(
        world,
        CollectorRegistry(),
        HttpApi(world, make_services(world), LimitSettings(), LineRateLimiter(1_000)),
    )
    await http.start("127.0.0.1", 0)
    yield http.port
    await http.stop()
    await world.close()


Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(port: int, said: bytes = b"") -> Link:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
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


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: here\r\n"])
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
    links = [await connect(port) for _ in range(3)]
    for link in links:
        assert b" 200 " in await ask(link)
    reader, writer = await connect(port)
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"Too many connections (limit 3)." in answer
    assert b" 200 " in await ask(links[0])
    for one in (*links, (reader, writer)):
        one[1].close()
