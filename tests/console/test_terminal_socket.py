"""The socket of a terminal: who may open it, what it takes and costs."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from console.test_sign_in import sign_in
from sshwarma.common.limits import MAX_BROWSER_TERMINAL_INPUT_BYTES
from sshwarma.terminal.printed_blocks import MAX_RECENT_BLOCKS
from support.driver import Person, Server
from support.waiting import wait_until

SECONDS = 30.0
GROWTH_KIB = 2 * 1024
LINE = "long line " * 1500
LINES = 10

Opens = Callable[..., ClientConnection]


class Opened:
    """An open terminal, and what it was sent."""

    def __init__(self, link: ClientConnection) -> None:
        self.link = link
        self.shown = b""

    def type(self, text: str) -> None:
        self.link.send(text.encode())

    def wait_for(self, text: str) -> None:
        """Read until a text was shown behind what was waited for before."""
        while text.encode() not in self.shown:
            self.shown += self.link.recv(SECONDS)  # type: ignore[operator]
        self.shown = self.shown.partition(text.encode())[2]

    def read_end(self) -> tuple[int, str]:
        """Read to the end; return the code and the reason."""
        try:
            while True:
                self.link.recv(SECONDS)
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            return closed.rcvd.code, closed.rcvd.reason


@pytest.fixture
def terminal() -> Iterator[Callable[..., Opened]]:
    """Open a terminal; options as for `connect`."""
    with contextlib.ExitStack() as stack:

        def open_one(
            server: Server, cookie: str, room: str = "", size: object = (80, 24), **options: Any
        ) -> Opened:
            named = {"origin": f"http://{server.http}", "subprotocols": ["sshwarma.term.1"]}
            link = stack.enter_context(
                connect(
                    f"ws://{server.http}/term" + (f"?in={room}" if room else ""),
                    additional_headers={"Cookie": cookie}, max_size=None, **(named | options),
                )
            )  # fmt: skip
            if isinstance(size, tuple):
                size = json.dumps({"columns": size[0], "rows": size[1]})
            with contextlib.suppress(ConnectionClosed):  # refused already
                link.send(size if isinstance(size, bytes) else str(size))
            return Opened(link)

        yield open_one


def read_memory(server: Server) -> int:
    """KiB that the server has in memory."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(
    "options",
    [
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://evil.example"},
        {"origin": None},
        {"subprotocols": None},
        {"subprotocols": ["other"]},
    ],
    ids=str,
)
def test_terminal_of_another_page_is_refused(
    world: Server, alice: Person, terminal: Callable[..., Opened], options: dict[str, Any]
) -> None:
    cookie = sign_in(world, alice)
    with pytest.raises(InvalidStatus) as refused:
        terminal(world, cookie, **options)
    assert refused.value.response.status_code == 403
    terminal(world, cookie).wait_for("Welcome")


def test_terminal_without_a_session_is_closed(
    world: Server, alice: Person, terminal: Callable[..., Opened], name: Callable[[str], str]
) -> None:
    assert terminal(world, "none=1").read_end()[0] == 4401
    cookie = sign_in(world, alice)
    secret = name("secret")
    world.owner.does(f"create {secret}", f"room private --room {secret}")
    code, reason = terminal(world, cookie, secret).read_end()
    assert code == 4403 and reason


def test_session_that_ends_closes_its_terminals(
    world: Server, alice: Person, bob: Person, terminal: Callable[..., Opened]
) -> None:
    cookie = sign_in(world, alice)
    opened = terminal(world, cookie)
    opened.wait_for("lobby> ")
    others = terminal(world, sign_in(world, bob))
    others.wait_for("lobby> ")
    (browser,) = alice.json("web list")["browsers"]
    alice.does(f"web end {browser['id']}")
    assert opened.read_end()[0] == 4401
    others.type("/look\r")
    others.wait_for("Here:")
    assert terminal(world, cookie).read_end()[0] == 4401
    wait_until(lambda: alice.name not in bob.does("who"))


@pytest.mark.parametrize(
    "size", ["", "[]", "{}", '{"columns": "a", "rows": 1}', '{"columns": 1e9, "rows": 1}', b"x"]
)
def test_terminal_begins_with_its_size(
    world: Server, alice: Person, terminal: Callable[..., Opened], size: object
) -> None:
    code, reason = terminal(world, sign_in(world, alice), size=size).read_end()
    assert code == 4403 and "columns" in reason


@pytest.mark.parametrize("size", [(10**9, 10**9), (-1, 0), (1, 1)])
def test_size_is_clamped(
    world: Server, alice: Person, terminal: Callable[..., Opened], size: tuple[int, int]
) -> None:
    opened = terminal(world, sign_in(world, alice), size=size)
    opened.wait_for("Welcome")
    opened.link.send('{"columns": 99999, "rows": -5}')
    opened.link.send('{"columns": 90, "rows": 20}')
    opened.type("/look\r")
    opened.wait_for("Here:")


def test_too_long_message_ends_the_terminal_and_no_other(
    world: Server, alice: Person, terminal: Callable[..., Opened]
) -> None:
    cookie = sign_in(world, alice)
    other, opened = terminal(world, cookie), terminal(world, cookie)
    opened.wait_for("lobby> ")
    opened.link.send(b"a" * MAX_BROWSER_TERMINAL_INPUT_BYTES)
    opened.wait_for("aaa")
    opened.link.send(b"a" * (MAX_BROWSER_TERMINAL_INPUT_BYTES + 1))
    code, reason = opened.read_end()
    assert code == 4403 and "Too many bytes" in reason
    other.type("/look\r")
    other.wait_for("Here:")


def test_person_has_a_limited_number_of_terminals(
    serve: Callable[..., Server], terminal: Callable[..., Opened]
) -> None:
    server = serve(ssh__max_connections_per_key=4)
    cookie = sign_in(server, server.owner)
    for _ in range(4):
        terminal(server, cookie).wait_for("lobby> ")
    code, reason = terminal(server, cookie).read_end()
    assert code == 4429 and "limit 4" in reason


def test_change_in_a_terminal_is_in_the_audit_as_of_the_web(
    world: Server, alice: Person, terminal: Callable[..., Opened], name: Callable[[str], str]
) -> None:
    opened = terminal(world, sign_in(world, alice))
    opened.wait_for("lobby> ")
    made = name("made")
    opened.type(f"/create {made}\r")
    opened.wait_for(f"{made}> ")
    rows = [
        row
        for row in world.owner.json(f"audit --agent {alice.name}")["rows"]
        if row["verb"] == "create"
    ]
    assert [row["door"] for row in rows] == ["web"]
    (browser,) = alice.json("web list")["browsers"]
    token = rows[0]["fingerprint"].removeprefix("token ")
    assert browser["id"].startswith(token) or token.startswith(browser["id"])


def flood(alice: Person, room: str) -> str:
    """Fill a room with rows; return the line that shows 150 KB of them.

    The sentence model is loaded first, which else would count as growth.
    """
    alice.run("find something")
    for number in range(LINES):
        alice.run(f"say --room {room} --stdin", f"{number} {LINE}")
    return f"/history {LINES}\r"


def test_flood_of_ten_megabytes_costs_the_server_nothing(
    serve: Callable[..., Server], terminal: Callable[..., Opened]
) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    owner = server.owner
    owner.does("create flooded")
    line = flood(owner, "flooded")
    opened = terminal(server, sign_in(server, owner), "flooded")
    opened.wait_for("flooded> ")
    size, baseline = 0, 0
    for number in range(MAX_RECENT_BLOCKS // 2 + 90):
        if number == MAX_RECENT_BLOCKS // 2 + 5:  # the terminal keeps no more to draw again
            size, baseline = 0, read_memory(server)
        opened.type(line)
        opened.type("/look\r")
        shown = b""
        while b"Here:" not in shown[-4000:]:
            part = opened.link.recv(SECONDS)
            assert isinstance(part, bytes)
            shown = shown[-4000:] + part
            size += len(part)
            if baseline:
                assert read_memory(server) - baseline < GROWTH_KIB
    assert size > 10_000_000
    owner.hang_up()


def test_terminal_that_reads_nothing_is_dropped_and_costs_little(
    serve: Callable[..., Server], terminal: Callable[..., Opened]
) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    owner = server.owner
    owner.does("create flooded")
    line = flood(owner, "flooded")
    cookie = sign_in(server, owner)
    reader = terminal(server, cookie, "flooded")
    for _ in range(3):
        reader.type(line)
        reader.type("/look\r")
        reader.wait_for("Here:")
    bob = server.person("bob")
    host, _, port = server.http.rpartition(":")
    silent = socket.create_connection((host, int(port)))
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck = terminal(server, sign_in(server, bob), "flooded", sock=silent, max_queue=1)
    reader.wait_for(f"{bob.name} arrives")
    baseline = read_memory(server)
    for _ in range(20):
        stuck.type(line)
    grown = 0
    while bob.name in (present := owner.does("who")):
        assert "web" in present
        grown = max(grown, read_memory(server) - baseline)
        reader.type("/look\r")
        reader.wait_for("Here:")
    bob.hang_up()
    assert grown < 24 * 1024  # 20 results of 150 KB wait, as lines of spans
    owner.hang_up()
