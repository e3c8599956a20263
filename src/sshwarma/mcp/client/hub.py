"""The hub: every MCP server this world is a client of, and the provider of their tools.

What servers there are, and whether each is wanted, is kept in the world; what each does now, here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from cachetools import LRUCache

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.common.limits import MAX_MCP_SERVERS
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.elicitation import Elicitation
from sshwarma.mcp.client.line_stream import LineStream
from sshwarma.mcp.client.link import (
    Dialer,
    ElicitationRequest,
    LinkLost,
    ProtocolEra,
    SdkDial,
    ServerInfo,
)
from sshwarma.mcp.client.oauth_login import OAuthLogins
from sshwarma.mcp.client.sanitize import ToolListing
from sshwarma.mcp.client.supervisor import ServerState, Supervisor, SupervisorTiming
from sshwarma.settings import McpSettings
from sshwarma.tools.call import ToolResult
from sshwarma.world import things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound, Unavailable, WorldError
from sshwarma.world.names import check_name
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_CONNECTING_SERVERS: Final = 10
"""Servers that connect at once."""

MAX_NAMED_TOOLS: Final = 12
"""Tools that are named when somebody offers them."""

STOP_TIMEOUT_SECONDS: Final = 10.0

SIGN_IN_CONNECT_SECONDS: Final = 15.0
"""A server that was signed in to has this long to be up before its owner is told."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How a server is now. Times are seconds."""

    state: ServerState | str
    reason: str
    since: float  # a reading of time.monotonic
    retry_at: float | None
    in_flight: int


class Hub:
    """The servers of a world. Made with `start`, ended with `close`; `folder` is where programs
    start that have no other place. What is kept of sign-ins is beside it."""

    timeout_seconds = None  # each server has its own, and its calls raise TimeoutError

    def __init__(
        self,
        world: World,
        folder: Path,
        timing: SupervisorTiming | None = None,
        dial: Dialer | None = None,
    ) -> None:
        self.asking = Elicitation(world)
        self.signing = OAuthLogins(world, folder.with_name("signins"), self._connect_signed_in)
        self.world = world
        self._folder = folder
        self._timing = timing or SupervisorTiming()
        self._dialled = dial
        self._loading = asyncio.Lock()
        self._servers: dict[str, Supervisor] = {}
        self._slots = asyncio.Semaphore(MAX_CONNECTING_SERVERS)
        self._changing: dict[str, asyncio.Lock] = {}
        self._offers: dict[str, _OfferedLines] = {}
        self._read: LRUCache[tuple[str, str], dict[str, str]] = LRUCache(MAX_MCP_SERVERS)

    async def start(self, configured: Sequence[McpSettings] = ()) -> None:
        """Declare the servers of the settings, and begin to connect to all that are wanted."""
        known = await self.world.change(lambda tx: _declare_servers(tx, configured))
        for server in known:
            if server.enabled:
                self._supervise(server)

    async def close(self) -> None:
        """End every sign-in, connection and program, side by side."""
        await self.signing.close()
        stopping = [asyncio.create_task(server.stop()) for server in self._servers.values()]
        self._servers.clear()
        if stopping:
            _, late = await asyncio.wait(stopping, timeout=STOP_TIMEOUT_SECONDS)
            for task in late:
                log.error("an mcp server did not end in time", seconds=STOP_TIMEOUT_SECONDS)
                task.cancel()

    async def offer(self, caller: Caller, name: str, lines: LineStream) -> None:
        """Have the tools of a server that the caller brings along, in the caller's room, until
        `lines` end. The caller may build there.

        Raises:
            Invalid, Conflict: if its tools cannot be called that.
            Unavailable: if what is there is no such server.
        """
        check_name(name, "namespace")
        settings = McpSettings(name=name, command=(server_records.OFFERED_ORIGIN,), trust=True)
        ends = _OfferedLines(lines)

        async def dial() -> Dialer:
            if ends.dialled:
                ends.over.set()
                raise LinkLost("the channel has ended")
            ends.dialled = True
            over = await asyncio.get_running_loop().run_in_executor(None, _load_dial)
            return partial(over, lines=ends)

        async with self._lock_for(name):
            server = await caller.change(
                lambda tx: server_records.declare_offer(
                    tx, settings, caller.room_id, caller.agent.id
                )
            )
            running = self._supervise(server, dial)
            self._offers[server.id] = ends
        try:
            await running.settled(settings.start_seconds)
            if not running.up:
                raise Unavailable(
                    f"{name} does not answer as an MCP server: {running.reason or 'it is silent'}."
                )
            await self.world.change(lambda tx: _announce_offer(tx, caller, server))
            await ends.over.wait()
            if ends.why:
                raise Unavailable(ends.why)
        finally:
            self._offers.pop(server.id, None)
            await asyncio.shield(self._take_back(caller, server))

    async def end_offer(self, caller: Caller, name: str) -> bool:
        """End a server that somebody brings along, who is told by whom. Whether it was one."""
        ends = self._offers.get((await self.find(name)).id)
        if ends is None:
            return False
        await caller.change(lambda tx: None, tell=f"ended what was brought along as {name}")
        ends.why = f"{caller.agent.name} has ended it."
        ends.over.set()
        return True

    async def _take_back(self, caller: Caller, server: Thing) -> None:
        await self._end(server.id)

        def work(tx: Change) -> None:
            known = things.get_thing(tx.conn, server.id)
            if known is not None and known.deleted_at is None:
                server_records.remove_server(tx, known)
                caller.tell(tx, f"took the tools of {server.name} along")

        await self.world.change(work)

    # What people do with servers.

    async def add(self, caller: Caller, settings: McpSettings) -> Thing:
        """Declare a server and begin to connect to it.

        Raises:
            Conflict: if the name is taken, or there are too many.
        """

        def work(tx: Change) -> Thing:
            if len(server_records.list_servers(tx.conn)) >= MAX_MCP_SERVERS:
                raise Conflict(f"There are {MAX_MCP_SERVERS} MCP servers, which is the most.")
            return server_records.declare_server(
                tx, settings, created_by=caller.agent.id, from_settings=False
            )

        async with self._lock_for(settings.name):
            made = await caller.change(work, tell=f"added the MCP server {settings.name}")
            self._supervise(made)
        return made

    async def remove(self, caller: Caller, name: str) -> None:
        """End a server and take its tools away; their equipment stays for when it returns.

        Raises:
            NotFound: if there is none of that name.
            Conflict: if it is in the settings.
        """
        if await self.end_offer(caller, name):
            return
        async with self._lock_for(name):
            server = await self.find(name)
            if server.metadata.get("origin") == "settings":
                raise Conflict(
                    f"{name} is in the settings of this server, and would come back.",
                    hint=f"/mcp disable {name} keeps it away.",
                )
            await self._end(server.id)
            await caller.change(
                lambda tx: server_records.remove_server(
                    tx, things.get_live_thing(tx.conn, server.id)
                ),
                tell=f"removed the MCP server {name}",
            )
            await self.signing.forget(server)

    async def enable(self, caller: Caller, name: str, wanted: bool) -> Thing:
        """Say whether a server is wanted; it is connected to, or ended, at once."""
        async with self._lock_for(name):
            server = await self.find(name)
            word = "enabled" if wanted else "disabled"
            changed = await caller.change(
                lambda tx: things.update_thing(tx, server.id, enabled=int(wanted)),
                tell=f"{word} the MCP server {name}",
            )
            if not wanted:
                await self.signing.cancel(server)
                await self._end(server.id)
            elif server.id not in self._servers:
                self._supervise(changed)
        return changed

    async def settled(self, name: str, seconds: float) -> ServerStatus:
        """How a server is once it is up or a try has failed, or after so many seconds."""
        server = await self.find(name)
        running = self._servers.get(server.id)
        if running is not None and not running.up and not running.reason:
            await running.settled(seconds)
        return self.condition(server)

    async def refresh(self, name: str, seconds: float) -> None:
        """Read a server's listing now, or try to connect to it now.

        Raises:
            Unavailable: if it is disabled, or cannot be connected to.
        """
        server = await self.find(name)
        running = self._servers.get(server.id)
        if running is None:
            raise Unavailable(f"{name} is disabled.", hint=f"/mcp enable {name}")
        await running.refresh(seconds)
        if not running.up:
            said = f": {running.reason}" if running.reason else ""
            raise Unavailable(f"{name} is not connected{said}.")

    async def approve(self, caller: Caller, name: str, tool: str | None) -> list[str]:
        """Take a server's new and changed tools as they are said to be now, if that is what the
        caller was shown last: a server could say something else meanwhile. Returns their names.

        Raises:
            NotFound: if none waits.
            Conflict: if it is not.
        """

        def work(tx: Change) -> list[str]:
            server = server_records.find_server(tx.conn, name)
            read = self._read.get((caller.agent.id, server.id), {})
            return server_records.approve_tools(tx, server, tool, read)

        return await caller.change(work, tell=f"approved what {name} says of {tool or 'its tools'}")

    def has_read(self, caller: Caller, server: Thing, tools: Sequence[Thing]) -> None:
        """Somebody was shown what a server says of its tools now."""
        key = (caller.agent.id, server.id)
        self._read[key] = {tool.id: server_records.current_fingerprint(tool) for tool in tools}

    async def find(self, name: str) -> Thing:
        """The server of that name.

        Raises:
            NotFound: if there is none.
        """
        return await self.world.store.read(lambda conn: server_records.find_server(conn, name))

    def condition(self, server: Thing) -> ServerStatus:
        """How a server is now."""
        running = self._servers.get(server.id)
        if running is None:
            return ServerStatus("disabled", "", 0.0, None, 0)
        return ServerStatus(
            running.state, running.reason, running.since, running.retry_at, running.in_flight
        )

    def why_unavailable(self, tool: Thing) -> str:
        """Why a tool cannot be used while its server is not connected; see `tools.call`."""
        running = self._servers.get(tool.parent_id or "")
        return running.why_down if running is not None else ""

    def log_of(self, server: Thing) -> list[str]:
        """The last lines a server wrote on stderr, or that were noted of it."""
        running = self._servers.get(server.id)
        return running.ring.last() if running else []

    # The provider of their tools.

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool; see `tools.call.ToolProvider`."""
        running = self._servers.get(tool.parent_id or "")
        if running is None:
            raise Unavailable(f"Nothing carries out {tool.label} now.")
        asker = self.world.agents.get(caller.behind or caller.agent.id)
        person_id = asker.id if asker is not None and asker.kind != "model" else None
        remote = str(tool.metadata.get("remote", tool.name))
        return await running.call(remote, arguments, person_id=person_id, report=caller.report)

    # Servers as they run.

    def _supervise(
        self, server: Thing, dial: Callable[[], Awaitable[Dialer]] | None = None
    ) -> Supervisor:
        settings = server_records.read_settings(server)
        era: ProtocolEra = "legacy" if server.metadata.get("era") == "legacy" else "auto"
        keeper = _HubListener(self, server.id, settings)
        running = Supervisor(
            settings,
            self._folder / server.name,
            era,
            dial or partial(self._dial, server),
            keeper,
            self._timing,
            self._slots,
        )
        self._servers[server.id] = running
        running.start()
        return running

    async def _end(self, server_id: str) -> None:
        running = self._servers.pop(server_id, None)
        if running is not None:
            await running.stop()
        await self.set_down(server_id)

    async def set_down(self, server_id: str) -> None:
        await self.world.change(lambda tx: server_records.mark_unavailable(tx, [server_id]))

    async def _connect_signed_in(self, server: Thing) -> None:
        """Somebody has signed in to a server, or out of it."""
        running = self._servers.get(server.id)
        credentials = self.signing.credentials(server)
        if running is None or credentials is None:
            return
        if credentials.token:
            await running.refresh(SIGN_IN_CONNECT_SECONDS)
        else:
            running.redial("somebody signed out")

    async def _dial(self, server: Thing) -> Dialer:
        """How to connect: by way of the SDK, which is imported when it is first needed."""
        if self._dialled is not None:
            return self._dialled
        async with self._loading:
            signed = await asyncio.get_running_loop().run_in_executor(None, _load_dial)
        return partial(signed, credentials=self.signing.credentials(server))

    def _lock_for(self, name: str) -> asyncio.Lock:
        """Changes of one server wait for each other."""
        if len(self._changing) > 2 * MAX_MCP_SERVERS:
            self._changing = {n: lock for n, lock in self._changing.items() if lock.locked()}
        return self._changing.setdefault(name, asyncio.Lock())


def _load_dial() -> SdkDial:
    """Import the SDK. For a thread: this takes seconds."""
    with serialize_imports():
        from sshwarma.mcp.client.session import dial
    return dial


class _OfferedLines:
    """Lines that tell when they are over."""

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines
        self.over = asyncio.Event()
        self.dialled = False
        self.why = ""  # if somebody else has ended it

    async def read_line(self, limit: int) -> bytes | None:
        line = None
        try:
            line = await self._lines.read_line(limit)
        finally:
            if line is None:
                self.over.set()
        return line

    async def write(self, data: bytes) -> None:
        await self._lines.write(data)


def _announce_offer(tx: Change, caller: Caller, server: Thing) -> None:
    """Tell the room what was brought."""
    found = things.read_children(tx.conn, server.id, "tool")
    names = ", ".join(tool.name for tool in found[:MAX_NAMED_TOOLS])
    more = f" and {len(found) - MAX_NAMED_TOOLS} more" if len(found) > MAX_NAMED_TOOLS else ""
    caller.tell(tx, f"offers {len(found)} tools as {server.name}: {names}{more}")


class _HubListener:
    """Keep the things of one server as its supervisor finds them."""

    def __init__(self, hub: Hub, server_id: str, settings: McpSettings) -> None:
        self._hub = hub
        self._id = server_id
        self._settings = settings
        self._last_reason = ""
        self._was_up = False

    async def came_up(self, greeting: ServerInfo, listing: ToolListing) -> None:
        self._last_reason, self._was_up = "", True
        published = await self._hub.world.change(
            lambda tx: server_records.publish_listing(
                tx, self._id, greeting, listing, trust=self._settings.trust
            )
        )
        if published.waiting:
            log.warning(
                "tools of an mcp server wait for approval",
                server=self._settings.name,
                tools=list(published.waiting)[:20],
            )
            self._tell_admins(published.waiting)

    def _tell_admins(self, waiting: Sequence[str]) -> None:
        """Those who are here now; the others see it in /mcp."""
        name = self._settings.name
        named = ", ".join(waiting[:MAX_NAMED_TOOLS]) + (
            ", …" if len(waiting) > MAX_NAMED_TOOLS else ""
        )
        words = f"It says something new of {named}: /mcp show {name} and /mcp approve {name}."
        for agent in self._hub.world.agents:
            if agent.role in ("owner", "admin"):
                self.tell(agent.id, words)

    async def went_down(self) -> None:
        try:
            await self._hub.set_down(self._id)
        except WorldError as refused:  # the disk is full, or the world is closing
            log.warning("could not be stored", server=self._settings.name, reason=str(refused))

    async def ask(self, person_id: str, question: ElicitationRequest) -> dict[str, Any] | None:
        return await self._hub.asking.ask(person_id, self._settings.name, question)

    def tell(self, person_id: str, words: str) -> None:
        self._hub.asking.tell(person_id, self._settings.name, words)

    def wants_sign_in(self, reason: str) -> None:
        # Whoever adds a server is told by that.
        if self._was_up and reason != self._last_reason:
            self._last_reason = reason
            self._hub.signing.tell_owners(self._settings.name, reason)


def _declare_servers(tx: Change, configured: Sequence[McpSettings]) -> list[Thing]:
    """Every server that is wanted or could be, none of them connected yet."""
    wanted = {settings.name for settings in configured}
    for settings in configured:
        try:
            server_records.declare_server(tx, settings, created_by=None, from_settings=True)
        except (Conflict, NotFound) as refused:
            log.warning("an mcp server was left out", server=settings.name, reason=str(refused))
    server_records.remove_offers(tx)
    for server in server_records.list_servers(tx.conn):
        if server.metadata.get("origin") == "settings" and server.name not in wanted:
            server_records.remove_server(tx, server)
    known = server_records.list_servers(tx.conn)
    if known:
        server_records.mark_unavailable(tx, [server.id for server in known])
    return known
