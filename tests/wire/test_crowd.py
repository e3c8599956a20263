"""Fifty people in one room: everybody sees every line once, in the same order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator

import asyncssh
import pytest

from support.driver import Server
from support.driver.terminal_session import TerminalSession

PEOPLE = 50
LINES = 4
SECONDS = 100.0

pytestmark = pytest.mark.soak

SAID = re.compile(rb"(p[a-z]{2}): line (\d+) of (p[a-z]{2})\r\n")


@pytest.fixture
def crowd_server(serve: Callable[..., Server]) -> Iterator[Server]:
    yield serve(
        ssh__limit_loopback="false",
        ssh__max_connections_per_key=PEOPLE * 2,
        limits__lines_per_10_seconds=1_000,
    )


def names() -> list[str]:
    letters = "abefghjk"
    return [f"p{a}{b}" for a in letters for b in letters][:PEOPLE]


@pytest.fixture
async def crowd(
    crowd_server: Server,
) -> AsyncIterator[list[tuple[str, TerminalSession, asyncssh.SSHClientChannel[bytes]]]]:
    """Everybody logged in, in the lobby, each with a terminal of a different width."""
    connections: list[asyncssh.SSHClientConnection] = []
    people = []
    async with asyncio.timeout(SECONDS):
        for number, name in enumerate(names()):
            key = asyncssh.generate_private_key("ssh-ed25519")
            crowd_server.operate("keys_add", name=name, public_key=key.export_public_key().decode())
            connection = await asyncssh.connect(
                crowd_server.host,
                crowd_server.port,
                username=name,
                client_keys=[key],
                known_hosts=None,
                config=None,
            )
            connections.append(connection)
            channel, session = await connection.create_session(
                TerminalSession,
                term_type="xterm",
                term_size=(60 + number, 24),
                encoding=None,
            )
            assert isinstance(session, TerminalSession)
            people.append((name, session, channel))
        for _, member, _ in people:
            await member.until(lambda seen: b"lobby> " in seen)
    yield people
    for connection in connections:
        connection.abort()
    await asyncio.gather(*(connection.wait_closed() for connection in connections))


async def test_fifty_people_see_every_line_once_in_the_same_order(
    crowd: list[tuple[str, TerminalSession, asyncssh.SSHClientChannel[bytes]]],
) -> None:
    async with asyncio.timeout(SECONDS):
        for number in range(LINES):
            for name, _, channel in crowd:
                channel.write(f"line {number} of {name}\r".encode())
        for _, member, _ in crowd:
            await member.until(lambda seen: len(SAID.findall(_plain(seen))) >= PEOPLE * LINES)
    orders = [
        [(number, speaker) for author, number, speaker in SAID.findall(_plain(member.seen))]
        for _, member, _ in crowd
    ]
    assert len(orders[0]) == PEOPLE * LINES
    assert len(set(orders[0])) == PEOPLE * LINES
    assert all(order == orders[0] for order in orders)
    for name in names():
        mine = [int(number) for number, speaker in orders[0] if speaker == name.encode()]
        assert mine == list(range(LINES))


async def test_arrivals_are_announced_once_and_counted(
    crowd: list[tuple[str, TerminalSession, asyncssh.SSHClientChannel[bytes]]],
) -> None:
    async with asyncio.timeout(SECONDS):
        _, first, _channel = crowd[0]
        await first.until(lambda seen: f"{PEOPLE} here".encode() in seen)
        for name in names()[1:]:  # who is here is counted before an arrival is stored
            await first.until(lambda seen, name=name: f"· {name} arrives".encode() in _plain(seen))
        for name in names()[1:]:
            assert _plain(first.seen).count(f"· {name} arrives\r\n".encode()) == 1
        crowd[-1][2].close()
        await first.until(lambda seen: f"· {names()[-1]} leaves".encode() in _plain(seen))
        await first.until(lambda seen: f"{PEOPLE - 1} here".encode() in seen[-400:])


def _plain(seen: bytes) -> bytes:
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen)
