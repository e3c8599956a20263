"""The sockets of the console: who may open one, and clients that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sshwarma.settings import ReloadableSettings
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.registry import tool_specs
from sshwarma.web import connection
from sshwarma.web.api import HttpApi
from sshwarma.web.console import live, socket_end
from sshwarma.web.console.pages import Console
from sshwarma.web.http import HttpServer
from sshwarma.web.metrics import MetricsPage
from sshwarma.world import agents, browser_sessions, login_keys, owners, rows, turns
from sshwarma.world.browser_sessions import SignInLink
from sshwarma.world.databases import Location
from sshwarma.world.events import AgentEvicted, StreamUpdated
from sshwarma.world.identity import read_world_id
from sshwarma.world.store import Change
from sshwarma.world.tokens import end_token
from sshwarma.world.world import World
from support.house import House
from support.services import make_services
from support.waiting import until

pytestmark = pytest.mark.process

KEY = "SHA256:" + "k" * 43


class Site:
    """A server with the console, and the cookie of alice, who is signed in."""

    def __init__(self, house: House, http: HttpServer, cookie: str) -> None:
        self.house = house
        self.http = http
        self.cookie = cookie

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.http.port}"

    def open(
        self, headers: dict[str, str] | None = None, after: int = 0, room: str = "lobby"
    ) -> Any:
        """A tab in a room; headers replace those of a browser."""
        named = {"Cookie": self.cookie, **(headers or {})}
        return connect(
            f"ws://127.0.0.1:{self.http.port}/live?in={room}&after={after}",
            origin=named.pop("Origin", self.origin) or None,  # type: ignore[arg-type]
            additional_headers=named,
        )


class Unopened:
    """Shells of terminals, which these tests do not open."""

    max_per_agent = 1
    is_stopping = False

    def open(self, *given: object) -> Any:
        raise NotImplementedError


@pytest.fixture
async def site(database: Location) -> AsyncIterator[Site]:
    world = await World.open(database, tool_specs())
    alice = await world.change(lambda tx: agents.create_agent(tx, "alice", role="owner"))
    services, pace = make_services(world), LineRateLimiter(100_000)

    def sign_in(tx: Change) -> tuple[Any, str]:
        login_keys.ensure_key(tx, alice.id, KEY, "ssh-ed25519 AAAA")
        return browser_sessions.sign_in(tx, SignInLink(alice.id, KEY, 0), "", "")

    _, secret = await world.change(sign_in)
    http = HttpServer(
        world, MetricsPage(), HttpApi(world, services, ReloadableSettings(), pace),
        console=Console(world, services, pace, Unopened()),
    )  # fmt: skip
    http.bind("127.0.0.1", 0)
    await http.serve()
    name = await world.store.read(read_world_id)
    yield Site(House(world), http, f"sshwarma-{name}={secret}")
    await http.stop()
    await world.close()


async def read_until(tab: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of a type."""
    while True:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(tab.recv(), 20))
        if message["type"] == kind:
            return message


async def test_tab_gets_rows_after_the_last_that_it_has(site: Site) -> None:
    caller = site.house.caller("alice")
    first = (await run_line(caller, "one")).seq
    async with site.open(after=first) as tab:
        await run_line(caller, "two")
        row = await read_until(tab, "row")
        assert row["seq"] > first and "two" in row["html"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_socket_of_another_site_is_refused(site: Site, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        async with site.open(headers):
            pass


async def test_socket_without_a_session_says_that_it_is_signed_out(site: Site) -> None:
    async with site.open({"Cookie": "sshwarma-0=swb_guessed"}) as tab:
        with pytest.raises(ConnectionClosed) as ended:
            await asyncio.wait_for(tab.recv(), 20)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.SIGNED_OUT


async def test_socket_ends_with_its_session(site: Site) -> None:
    world = site.house.world
    async with site.open() as tab:
        await read_until(tab, "here")
        token = await world.store.read(
            lambda conn: browser_sessions.find_session(conn, site.cookie.partition("=")[2])
        )
        assert token is not None
        await world.change(lambda tx: end_token(tx, token))
        with pytest.raises(ConnectionClosed) as ended:
            await asyncio.wait_for(tab.recv(), 20)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.SIGNED_OUT


async def test_idle_socket_stays_open(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to send the head of a request is over with the upgrade."""
    monkeypatch.setattr(connection, "HTTP_HEAD_TIMEOUT_SECONDS", 0.3)
    async with site.open() as tab:
        await read_until(tab, "here")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tab.recv(), 0.6)
        await run_line(site.house.caller("alice"), "still there?")
        assert "still there?" in (await read_until(tab, "row"))["html"]


async def test_page_that_is_loaded_again_is_no_departure(site: Site) -> None:
    caller = site.house.caller("alice")
    for _ in range(3):
        async with site.open() as tab:
            await read_until(tab, "here")
    rows = await site.house.world.last_rows("lobby", 100)
    assert [row.content for row in rows if row.kind == "presence"] == ["arrives"]
    await site.http.stop()
    rows = await site.house.world.last_rows("lobby", 100)
    assert [row.content for row in rows if row.kind == "presence"] == ["arrives", "leaves"]
    assert not site.house.world.presence.connections_of(caller.agent.id)


async def test_agent_has_a_limited_number_of_tabs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_CONSOLE_TABS_PER_AGENT", 1)
    async with site.open() as first:
        await read_until(first, "here")
        async with site.open() as second:
            with pytest.raises(ConnectionClosed) as ended:
                await asyncio.wait_for(second.recv(), 20)
        assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.TOO_MANY
        assert "limit 1" in ended.value.rcvd.reason


async def test_tab_that_reads_nothing_is_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CONSOLE_SEND_SECONDS", 0.5)
    caller, world = site.house.caller("alice"), site.house.world
    small = ask_for_a_socket(site, size=4_096)
    async with asyncio.timeout(60):
        await until(lambda: world.presence.connections_of(caller.agent.id))
        async with site.open() as other:  # it hears all that meanwhile
            while len(world.presence.connections_of(caller.agent.id)) > 1:
                await run_line(caller, "x" * 15_000)
                await read_until(other, "row")
    small.close()


def ask_for_a_socket(site: Site, more: str = "", *, size: int = 0) -> socket.socket:
    """Send the head of a request for a socket; the client takes `size` bytes at once."""
    connected = socket.create_connection(("127.0.0.1", site.http.port))
    connected.settimeout(20)
    if size:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    connected.sendall(
        f"GET /live?in=lobby&after=0 HTTP/1.1\r\nHost: 127.0.0.1:{site.http.port}\r\n"
        f"Origin: {site.origin}\r\nCookie: {site.cookie}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n".encode()
    )
    return connected


@pytest.mark.parametrize(
    "more",
    [
        "Content-Length: 1\r\n",
        "Transfer-Encoding: chunked\r\n",
        f"X-Long: {'a' * 9_000}\r\n",
        "".join(f"X-{number}: a\r\n" for number in range(200)),
    ],
    ids=["body", "chunks", "long", "many"],
)
async def test_head_that_sockets_refuse_holds_no_connection(site: Site, more: str) -> None:
    connected = await asyncio.to_thread(ask_for_a_socket, site, more)
    answer = await asyncio.to_thread(connected.recv, 100)
    assert answer.startswith(b"HTTP/1.1 400 ")
    await until(lambda: site.http.connections == 0)
    connected.close()


async def test_server_stops_while_a_refused_socket_is_open(site: Site) -> None:
    connected = await asyncio.to_thread(ask_for_a_socket, site, "Content-Length: 1\r\n")
    async with site.open() as tab:
        await read_until(tab, "here")
        stopping = asyncio.create_task(site.http.stop())
        with pytest.raises(ConnectionClosed) as ended:
            await asyncio.wait_for(tab.recv(), 20)
        await stopping
    assert ended.value.rcvd is not None and ended.value.rcvd.code == 1012
    connected.close()


async def test_pings_of_who_reads_nothing_are_not_answered(site: Site) -> None:
    connected = await asyncio.to_thread(ask_for_a_socket, site)
    ping = b"\x89\xfd\0\0\0\0" + 125 * b"p"
    async with site.open() as other:
        await read_until(other, "here")
        writing = asyncio.to_thread(connected.sendall, 80_000 * ping)  # 10 MB
        before = waiting_bytes(site)
        await asyncio.wait_for(writing, 60)
        assert waiting_bytes(site) - before < 1_000_000
        said = await run_line(site.house.caller("alice"), "still there?")
        while (await read_until(other, "row"))["seq"] != said.seq:
            pass
    connected.close()


def waiting_bytes(site: Site) -> int:
    """The bytes that wait in the process for clients that do not read."""
    server = site.http._server
    assert server is not None
    open_now: Any = server.server_state.connections
    return sum(one.transport.get_write_buffer_size() for one in open_now)


async def test_what_a_tab_sends_is_neither_read_nor_a_fault(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    async with site.open() as tab:
        await read_until(tab, "here")
        await tab.send(b"\0binary")
        await tab.send("text")
        await run_line(site.house.caller("alice"), "still there?")
        await read_until(tab, "row")
        await tab.send(b"\xff\xfe", text=True)
        with pytest.raises(ConnectionClosed) as ended:
            await asyncio.wait_for(tab.recv(), 20)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == 1007
    assert not [one for one in caplog.records if one.exc_info]


async def test_socket_ends_as_signed_out_with_the_account(site: Site) -> None:
    world = site.house.world
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol", role="owner"))
    other_key = "SHA256:" + "c" * 43
    await world.change(lambda tx: login_keys.ensure_key(tx, carol.id, other_key, "ssh-ed25519 A"))
    alice = world.agents.find("alice")
    async with site.open() as tab:
        await read_until(tab, "here")
        await world.change(lambda tx: owners.set_agent_disabled(tx, alice.id, True))
        with pytest.raises(ConnectionClosed) as ended:
            await asyncio.wait_for(tab.recv(), 20)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.SIGNED_OUT
    await world.change(lambda tx: owners.set_agent_disabled(tx, alice.id, False))
    async with site.open() as tab:
        with pytest.raises(ConnectionClosed) as ended:
            await asyncio.wait_for(tab.recv(), 20)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.SIGNED_OUT


async def test_tab_that_nobody_uses_ends_with_its_session(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as tab:
        await read_until(tab, "here")
        monkeypatch.setattr(browser_sessions, "BROWSER_IDLE_SECONDS", 0)
        async with site.open() as late:  # also what only opens a socket
            with pytest.raises(ConnectionClosed) as ended:
                await asyncio.wait_for(late.recv(), 20)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.SIGNED_OUT


async def test_open_tab_ends_when_its_session_is_idle(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_sessions, "BROWSER_IDLE_SECONDS", 2)
    async with site.open() as tab:
        await read_until(tab, "here")
        with pytest.raises(ConnectionClosed) as ended:
            await asyncio.wait_for(tab.recv(), 20)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.SIGNED_OUT
    assert ended.value.rcvd.reason == "This browser was signed out."


async def test_private_messages_come_to_a_tab(site: Site) -> None:
    world = site.house.world
    await world.change(lambda tx: agents.create_agent(tx, "bob", role="member"))
    async with site.open() as tab:
        await read_until(tab, "here")
        sent = await run_line(site.house.caller("bob"), "/tell alice only for you")
        assert sent.note == "", "she is here"
        assert "only for you" in (await read_until(tab, "tell"))["html"]


async def test_tab_gets_nothing_that_is_said_after_its_agent_had_to_leave(site: Site) -> None:
    world, alice = site.house.world, site.house.world.agents.find("alice")
    heard: list[str] = []
    async with site.open() as tab:
        await read_until(tab, "here")

        def remove(tx: Change) -> None:
            tx.publish_on_commit(AgentEvicted(alice.id, "You were removed.", "lobby"))
            rows.append_row(tx, "lobby", "chat", "not for you", author_id=alice.id)
            turn_id = _open_turn(tx, alice.id)
            tx.publish_on_commit(StreamUpdated("lobby", turn_id, alice.id, "nor this"))

        await world.change(remove)
        with pytest.raises(ConnectionClosed) as ended:
            while True:
                heard.append(str(await asyncio.wait_for(tab.recv(), 20)))
    assert ended.value.rcvd is not None and ended.value.rcvd.code == socket_end.LOST_ROOM
    assert not [one for one in heard if "not for you" in one or "nor this" in one]


def _open_turn(tx: Change, agent_id: str) -> str:
    """A turn of an answer."""
    return turns.open_turn(tx, "lobby", agent_id, agent_id).id


async def test_draft_of_the_next_step_outlives_the_row_of_the_last(site: Site) -> None:
    world, alice = site.house.world, site.house.world.agents.find("alice")
    turn_id = await world.change(lambda tx: _open_turn(tx, alice.id))
    async with site.open() as tab:
        await read_until(tab, "here")
        world.publish(StreamUpdated("lobby", turn_id, alice.id, "first step"))
        first: dict[str, Any] = {}
        while first.get("text") != "first step":
            first = json.loads(await asyncio.wait_for(tab.recv(), 20))
        row = await world.change(
            lambda tx: rows.append_row(
                tx, "lobby", "chat", "first step", author_id=alice.id, turn_id=turn_id
            )
        )
        world.publish(StreamUpdated("lobby", turn_id, alice.id, "second step begins"))
        messages: dict[str, Any] = {}
        while len(messages) < 2:
            message = json.loads(await asyncio.wait_for(tab.recv(), 20))
            if message["type"] == "end" or message.get("text", "").startswith("second"):
                messages["end" if message["type"] == "end" else "second"] = message
        assert first["row"] < messages["end"]["row"] == row.seq <= messages["second"]["row"]
