"""The hub: connects to all configured MCP servers and provides their tools.

The world stores the servers and whether each is enabled; the hub holds their live connections.
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
"""Servers that may be connecting at the same time."""

MAX_NAMED_TOOLS: Final = 12
"""Tool names listed in one notice."""

STOP_TIMEOUT_SECONDS: Final = 10.0

SIGN_IN_CONNECT_SECONDS: Final = 15.0
"""Seconds to wait for a connection after a sign-in before the owner is notified."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Current status of a server; times are `time.monotonic` seconds."""

    state: ServerState | str
    reason: str
    since: float
    retry_at: float | None
    in_flight: int


class Hub:
    """MCP servers of a world and their connections, from `start` to `close`.

    `folder` is the working directory of programs that have none of their own; the sign-in files
    are stored beside it.
    """

    timeout_seconds = None  # each server has its own timeout, and its calls raise TimeoutError

    def __init__(
        self,
        world: World,
        folder: Path,
        timing: SupervisorTiming | None = None,
        dial: Dialer | None = None,
    ) -> None:
        self.elicitation = Elicitation(world)
        self.oauth_logins = OAuthLogins(world, folder.with_name("signins"), self._connect_signed_in)
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
        """Declare the servers of the settings and connect to all enabled servers."""
        known = await self.world.change(lambda tx: _declare_servers(tx, configured))
        for server in known:
            if server.enabled:
                self._supervise(server)

    async def close(self) -> None:
        """Stop all sign-ins, connections and programs concurrently."""
        await self.oauth_logins.close()
        stopping = [asyncio.create_task(server.stop()) for server in self._servers.values()]
        self._servers.clear()
        if stopping:
            _, late = await asyncio.wait(stopping, timeout=STOP_TIMEOUT_SECONDS)
            for task in late:
                log.error("an mcp server did not stop in time", seconds=STOP_TIMEOUT_SECONDS)
                task.cancel()

    async def add_offer(self, caller: Caller, name: str, lines: LineStream) -> None:
        """Add the tools of a server that the caller offers to the caller's room.

        Returns when `lines` end. The caller must have the build right there.

        Raises:
            Invalid: if the name is not valid.
            Conflict: if the name is in use.
            Unavailable: if no MCP server responds, or another agent disconnected it.
        """
        check_name(name, "namespace")
        settings = McpSettings(name=name, command=(server_records.OFFERED_ORIGIN,), trust=True)
        ends = _OfferedLines(lines)

        async def dial() -> Dialer:
            if ends.is_dialled:
                ends.ended.set()
                raise LinkLost("the channel closed")
            ends.is_dialled = True
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
            await running.wait_until_settled(settings.start_seconds)
            if not running.is_up:
                raise Unavailable(
                    f"{name} is not a working MCP server: {running.reason or 'no response'}."
                )
            await self.world.change(lambda tx: _announce_offer(tx, caller, server))
            await ends.ended.wait()
            if ends.reason:
                raise Unavailable(ends.reason)
        finally:
            self._offers.pop(server.id, None)
            await asyncio.shield(self._take_back(caller, server))

    async def end_offer(self, caller: Caller, name: str) -> bool:
        """Disconnect an offered server; return whether `name` was one.

        The person who offered it gets the caller's name.
        """
        ends = self._offers.get((await self.find(name)).id)
        if ends is None:
            return False
        await caller.change(lambda tx: None, tell=f"disconnected the offered server {name}")
        ends.reason = f"{caller.agent.name} disconnected it."
        ends.ended.set()
        return True

    async def _take_back(self, caller: Caller, server: Thing) -> None:
        await self._end(server.id)

        def work(tx: Change) -> None:
            known = things.get_thing(tx.conn, server.id)
            if known is not None and known.deleted_at is None:
                server_records.remove_server(tx, known)
                caller.append_notice(tx, f"disconnected; the tools of {server.name} are gone")

        await self.world.change(work)

    # Operations on servers.

    async def add(self, caller: Caller, settings: McpSettings) -> Thing:
        """Declare a server and start connecting to it.

        Raises:
            Conflict: if the name is in use, or there are MAX_MCP_SERVERS servers.
        """

        def work(tx: Change) -> Thing:
            if len(server_records.list_servers(tx.conn)) >= MAX_MCP_SERVERS:
                raise Conflict(f"There are already {MAX_MCP_SERVERS} MCP servers, the limit.")
            return server_records.declare_server(
                tx, settings, created_by=caller.agent.id, from_settings=False
            )

        async with self._lock_for(settings.name):
            made = await caller.change(work, tell=f"added the MCP server {settings.name}")
            self._supervise(made)
        return made

    async def remove(self, caller: Caller, name: str) -> None:
        """Disconnect and remove a server and its tools; keep their equipment.

        Raises:
            NotFound: if no server has that name.
            Conflict: if it is in the settings.
        """
        if await self.end_offer(caller, name):
            return
        async with self._lock_for(name):
            server = await self.find(name)
            if server.metadata.get("origin") == "settings":
                raise Conflict(
                    f"{name} is in the settings file and would return at the next start.",
                    hint=f"Turn it off with /mcp disable {name}.",
                )
            await self._end(server.id)
            await caller.change(
                lambda tx: server_records.remove_server(
                    tx, things.get_live_thing(tx.conn, server.id)
                ),
                tell=f"removed the MCP server {name}",
            )
            await self.oauth_logins.forget(server)

    async def enable(self, caller: Caller, name: str, wanted: bool) -> Thing:
        """Enable or disable a server; connect or disconnect it now."""
        async with self._lock_for(name):
            server = await self.find(name)
            word = "enabled" if wanted else "disabled"
            changed = await caller.change(
                lambda tx: things.update_thing(tx, server.id, enabled=int(wanted)),
                tell=f"{word} the MCP server {name}",
            )
            if not wanted:
                await self.oauth_logins.cancel(server)
                await self._end(server.id)
            elif server.id not in self._servers:
                self._supervise(changed)
        return changed

    async def wait_until_settled(self, name: str, seconds: float) -> ServerStatus:
        """Return a server's status when it is up or an attempt failed.

        Waits at most `seconds`.
        """
        server = await self.find(name)
        running = self._servers.get(server.id)
        if running is not None and not running.is_up and not running.reason:
            await running.wait_until_settled(seconds)
        return self.status_of(server)

    async def refresh(self, name: str, seconds: float) -> None:
        """Read a server's tool listing now, or connect to it now.

        Raises:
            Unavailable: if it is disabled, or the connection fails.
        """
        server = await self.find(name)
        running = self._servers.get(server.id)
        if running is None:
            raise Unavailable(f"{name} is disabled.", hint=f"/mcp enable {name}")
        await running.refresh(seconds)
        if not running.is_up:
            said = f": {running.reason}" if running.reason else ""
            raise Unavailable(f"{name} is not connected{said}.")

    async def approve(self, caller: Caller, name: str, tool: str | None) -> list[str]:
        """Approve a server's new and changed tools, all or one; return their names.

        Only the text that was last shown to the caller can be approved, because the server may
        have changed it since.

        Raises:
            NotFound: if no tool waits for approval.
            Conflict: if the text is not what the caller was shown.
        """

        def work(tx: Change) -> list[str]:
            server = server_records.find_server(tx.conn, name)
            read = self._read.get((caller.agent.id, server.id), {})
            return server_records.approve_tools(tx, server, tool, read)

        approved = f"{tool} of {name}" if tool else f"the tools of {name}"
        return await caller.change(work, tell=f"approved {approved}")

    def mark_read(self, caller: Caller, server: Thing, tools: Sequence[Thing]) -> None:
        """Record that the caller was shown the current text of these tools."""
        key = (caller.agent.id, server.id)
        self._read[key] = {tool.id: server_records.current_fingerprint(tool) for tool in tools}

    async def find(self, name: str) -> Thing:
        """Return the server of that name.

        Raises:
            NotFound: if no server has it.
        """
        return await self.world.store.read(lambda conn: server_records.find_server(conn, name))

    def status_of(self, server: Thing) -> ServerStatus:
        """Return the current status of a server."""
        running = self._servers.get(server.id)
        if running is None:
            return ServerStatus("disabled", "", 0.0, None, 0)
        return ServerStatus(
            running.state, running.reason, running.since, running.retry_at, running.in_flight
        )

    def why_unavailable(self, tool: Thing) -> str:
        """Return why a tool's server is not connected; see `tools.call`."""
        running = self._servers.get(tool.parent_id or "")
        return running.why_down if running is not None else ""

    def log_of(self, server: Thing) -> list[str]:
        """Return the last lines of a server's stderr and of notes about it."""
        running = self._servers.get(server.id)
        return running.log_buffer.last_lines() if running else []

    # Provider of their tools.

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool; see `tools.call.ToolProvider`."""
        running = self._servers.get(tool.parent_id or "")
        if running is None:
            raise Unavailable(f"{tool.label} has no running server.")
        asker = self.world.agents.get(caller.person_id or caller.agent.id)
        person_id = asker.id if asker is not None and asker.kind != "model" else None
        remote = str(tool.metadata.get("remote", tool.name))
        return await running.call(remote, arguments, person_id=person_id, report=caller.on_progress)

    # Running servers.

    def _supervise(
        self, server: Thing, dial: Callable[[], Awaitable[Dialer]] | None = None
    ) -> Supervisor:
        settings = server_records.read_settings(server)
        era: ProtocolEra = "legacy" if server.metadata.get("era") == "legacy" else "auto"
        keeper = _HubListener(self, server.id, settings)
        running = Supervisor(
            settings=settings,
            folder=self._folder / server.name,
            era=era,
            dial=dial or partial(self._dial, server),
            keeper=keeper,
            timing=self._timing,
            slots=self._slots,
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
        """Reconnect a server after a sign-in or sign-out."""
        running = self._servers.get(server.id)
        credentials = self.oauth_logins.credentials(server)
        if running is None or credentials is None:
            return
        if credentials.token:
            await running.refresh(SIGN_IN_CONNECT_SECONDS)
        else:
            running.redial("signed out")

    async def _dial(self, server: Thing) -> Dialer:
        """Return the dialer of the SDK, which is imported at the first use."""
        if self._dialled is not None:
            return self._dialled
        async with self._loading:
            signed = await asyncio.get_running_loop().run_in_executor(None, _load_dial)
        return partial(signed, credentials=self.oauth_logins.credentials(server))

    def _lock_for(self, name: str) -> asyncio.Lock:
        """Return the lock that serializes changes of one server."""
        if len(self._changing) > 2 * MAX_MCP_SERVERS:
            self._changing = {n: lock for n, lock in self._changing.items() if lock.locked()}
        return self._changing.setdefault(name, asyncio.Lock())


def _load_dial() -> SdkDial:
    """Import the SDK; call it in a thread, because this takes seconds."""
    with serialize_imports():
        from sshwarma.mcp.client.session import dial
    return dial


class _OfferedLines:
    """Line stream that sets `ended` when it ends."""

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines
        self.ended = asyncio.Event()
        self.is_dialled = False
        self.reason = ""  # set if another agent disconnected it

    async def read_line(self, limit: int) -> bytes | None:
        line = None
        try:
            line = await self._lines.read_line(limit)
        finally:
            if line is None:
                self.ended.set()
        return line

    async def write(self, data: bytes) -> None:
        await self._lines.write(data)


def _announce_offer(tx: Change, caller: Caller, server: Thing) -> None:
    """Announce the offered tools to the room."""
    found = things.read_children(tx.conn, server.id, "tool")
    names = ", ".join(tool.name for tool in found[:MAX_NAMED_TOOLS])
    more = f" and {len(found) - MAX_NAMED_TOOLS} more" if len(found) > MAX_NAMED_TOOLS else ""
    caller.append_notice(tx, f"offers {len(found)} tools as {server.name}: {names}{more}")


class _HubListener:
    """Updates the things of one server from the events of its supervisor."""

    def __init__(self, hub: Hub, server_id: str, settings: McpSettings) -> None:
        self._hub = hub
        self._id = server_id
        self._settings = settings
        self._last_reason = ""
        self._was_up = False

    async def on_up(self, greeting: ServerInfo, listing: ToolListing) -> None:
        self._last_reason, self._was_up = "", True
        published = await self._hub.world.change(
            lambda tx: server_records.publish_listing(
                tx, self._id, greeting, listing, trust=self._settings.trust
            )
        )
        if published.pending:
            log.warning(
                "tools of an mcp server wait for approval",
                server=self._settings.name,
                tools=list(published.pending)[:20],
            )
            self._tell_admins(published.pending)

    def _tell_admins(self, waiting: Sequence[str]) -> None:
        """Notify connected owners and admins of waiting tools; others see them in /mcp."""
        name = self._settings.name
        named = ", ".join(waiting[:MAX_NAMED_TOOLS]) + (
            ", …" if len(waiting) > MAX_NAMED_TOOLS else ""
        )
        words = f"Tools to approve: {named}. Read /mcp show {name}, then /mcp approve {name}."
        for agent in self._hub.world.agents:
            if agent.role in ("owner", "admin"):
                self.notify(agent.id, words)

    async def on_down(self) -> None:
        try:
            await self._hub.set_down(self._id)
        except WorldError as refused:  # the disk is full, or the world is closing
            log.warning(
                "an mcp server's state could not be stored",
                server=self._settings.name,
                reason=str(refused),
            )

    async def ask(self, person_id: str, question: ElicitationRequest) -> dict[str, Any] | None:
        return await self._hub.elicitation.ask(person_id, self._settings.name, question)

    def notify(self, person_id: str, words: str) -> None:
        self._hub.elicitation.notify(person_id, self._settings.name, words)

    def on_sign_in_required(self, reason: str) -> None:
        # A server that was never up is being added, and the verb's result says so.
        if self._was_up and reason != self._last_reason:
            self._last_reason = reason
            self._hub.oauth_logins.notify_owners(self._settings.name, reason)


def _declare_servers(tx: Change, configured: Sequence[McpSettings]) -> list[Thing]:
    """Declare the servers of the settings; return all servers, marked unavailable."""
    wanted = {settings.name for settings in configured}
    for settings in configured:
        try:
            server_records.declare_server(tx, settings, created_by=None, from_settings=True)
        except (Conflict, NotFound) as refused:
            log.warning("an mcp server was skipped", server=settings.name, reason=str(refused))
    server_records.remove_offers(tx)
    for server in server_records.list_servers(tx.conn):
        if server.metadata.get("origin") == "settings" and server.name not in wanted:
            server_records.remove_server(tx, server)
    known = server_records.list_servers(tx.conn)
    if known:
        server_records.mark_unavailable(tx, [server.id for server in known])
    return known
