"""Streams of events on their way to clients of all kinds."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from sshwarma.common.limits import MAX_EVENT_STREAMS_PER_AGENT
from support.driver import Person, Server

SECONDS = 60.0
LONG = "x" * 16_000


@pytest.fixture
def token(world: Server, bob: Person) -> str:
    return str(world.operate("token_new", name=bob.name, scope="act")["token"])


@contextlib.contextmanager
def asking(world: Server, token: str, first_line: str, buffer: int = 0) -> Iterator[socket.socket]:
    """A connection that has asked for events, with a small buffer if one is given."""
    host, _, port = world.http.rpartition(":")
    with socket.socket() as client:
        client.settimeout(SECONDS)
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.connect((host, int(port)))
        client.sendall(
            f"{first_line}\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        yield client


def read_until(client: socket.socket, wanted: bytes) -> bytes:
    """What a server sends, up to and with some bytes."""
    found = b""
    while wanted not in found:
        part = client.recv(65_536)
        assert part, found
        found += part
    return found


def test_client_of_http_1_0_hears_without_chunks(
    world: Server, alice: Person, token: str, room: str
) -> None:
    with asking(world, token, f"GET /api/v1/events?rooms={room} HTTP/1.0") as client:
        head, _, begun = read_until(client, b'"type":"start"}\n\n').partition(b"\r\n\r\n")
        assert b"chunked" not in head.lower()
        assert begun.startswith(b"retry: ")
        alice.does(f"say --room {room} hello")
        row, *others = read_until(client, b"\n\n").decode().splitlines()
    assert row.startswith("id: ")
    assert json.loads(others[1].removeprefix("data: "))["text"] == "hello"


def test_head_of_the_events_ends_at_once(world: Server, token: str, room: str) -> None:
    for _ in range(MAX_EVENT_STREAMS_PER_AGENT + 1):
        with asking(world, token, f"HEAD /api/v1/events?rooms={room} HTTP/1.1") as client:
            assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    with asking(world, token, f"HEAD /api/v1/events?rooms={room} HTTP/1.1") as client:
        found = read_until(client, b"\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        while part := client.recv(65_536):
            found += part
    assert found.endswith(b"\r\n\r\n")
    assert b"retry: " not in found


def test_client_that_rests_hears_all_in_order(
    world: Server, alice: Person, token: str, room: str
) -> None:
    """More waits than the buffers of both sides hold."""
    count = 190  # 3 MB
    with asking(world, token, f"GET /api/v1/events?rooms={room} HTTP/1.1", 4_096) as client:
        read_until(client, b'"type":"start"}\n\n')
        for number in range(count):
            alice.does(f"say --room {room} {number} {LONG}")
        reader = client.makefile("rb")
        heard: list[dict[str, Any]] = []
        while len(heard) < count:
            size = int(reader.readline() or reader.readline(), 16)
            body = reader.read(size)
            assert reader.readline() == b"\r\n"
            lines = body.decode().splitlines()
            heard += [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert [one["text"] for one in heard] == [f"{number} {LONG}" for number in range(count)]
