"""The hub: connects to all configured MCP servers and provides their tools.

The world stores the servers and whether each is enabled; the hub holds their live connections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cachetools import LRUCache
from typing_extensions import override

from sshwarma.common.limits import MAX_MCP_SERVERS
from sshwarma.mcp.client import configured_servers, server_records, tool_approval
from sshwarma.mcp.client.bundled_servers import BundledServers
from sshwarma.mcp.client.connection_errors import sign_in_hint
from sshwarma.mcp.client.link import Dialer
from sshwarma.mcp.client.offers import Offers
from sshwarma.mcp.client.server_pool import ServerPool
from sshwarma.mcp.client.server_state import ServerState, SupervisorTiming
from sshwarma.mcp.line_stream import LineStream
from sshwarma.settings import McpSettings
from sshwarma.tools.provider import ToolProvider, ToolResult
from sshwarma.world import things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Unavailable
from sshwarma.world.reader import Hint, next_call
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Current status of a server; times are `time.monotonic` seconds."""

    state: ServerState | str
    reason: str
    since: float
    retry_at: float | None
    in_flight: int


@dataclass(frozen=True, slots=True)
class ServerMeasure:
    """Figures of an enabled server, for the metrics; counts since it was enabled."""

    name: str
    is_offered: bool
    is_program: bool
    state: ServerState
    is_up: bool
    calls: int
    failed_calls: int


class Hub(ToolProvider):
    """MCP servers of a world and their connections, from `start` to `close`.

    `folder` is the working directory of programs that have none of their own; the sign-in files
    are stored beside it. `skipped` says why servers of the settings are not in force, by their
    names.
    """

    timeout_seconds = None  # each server has its own timeout, and its calls raise TimeoutError

    def __init__(
        self,
        world: World,
        folder: Path,
        timing: SupervisorTiming | None = None,
        dial: Dialer | None = None,
    ) -> None:
        self.pool = ServerPool(world, folder, timing or SupervisorTiming(), dial)
        self.elicitation = self.pool.elicitation
        self.oauth_sign_ins = self.pool.oauth_sign_ins
        self.bundled = BundledServers(world, self.pool)
        self.world = world
        self.skipped: Mapping[str, str] = {}
        self._offers = Offers(world, self.pool)
        self._read: LRUCache[tuple[str, str], dict[str, str]] = LRUCache(MAX_MCP_SERVERS)

    async def start(self, configured: Sequence[McpSettings] = ()) -> None:
        """Declare the servers of the settings and connect to all enabled servers.

        If the world cannot be written to, those that it has are connected.
        """
        servers, self.skipped = await configured_servers.declare_all(self.world, configured)
        off = await self._off()
        for server in servers:
            if server.enabled and server.parent_id not in off:
                self.pool.supervise(server)

    async def adopt(self, configured: Sequence[McpSettings]) -> dict[str, str]:
        """Make these the servers of the settings; the others keep their connections.

        Returns:
            Why servers were skipped, a sentence for each name; see `configured_servers.adopt`.
        """
        problems = await configured_servers.adopt(self.pool, self.world, configured)
        self.skipped = {one.name: problems[one.name] for one in configured if one.name in problems}
        return problems

    async def close(self) -> None:
        """Stop all sign-ins, connections and programs concurrently."""
        await self.pool.close()

    # Offered servers.

    async def add_offer(self, caller: Caller, name: str, lines: LineStream) -> None:
        """Serve the tools of a server that the caller offers; see `Offers.serve`."""
        await self._offers.serve(caller, name, lines)

    async def end_offer(self, caller: Caller, name: str) -> bool:
        """Disconnect an offered server; return whether the server of that name was one.

        Raises:
            NotFound: if no server has that name.
        """
        return await self._offers.disconnect(caller, await self.find(name))

    # Operations on servers.

    async def add(self, caller: Caller, settings: McpSettings) -> Thing:
        """Declare a server and start connecting to it.

        Raises:
            Conflict: if the name is in use, or there are MAX_MCP_SERVERS servers.
        """

        def work(tx: Change) -> Thing:
            if len(server_records.list_servers(tx.conn)) >= MAX_MCP_SERVERS:
                raise Conflict(f"A world can have at most {MAX_MCP_SERVERS} MCP servers.")
            return server_records.declare_server(
                tx, settings, created_by=caller.agent.id, from_settings=False
            )

        async with self.pool.lock_for(settings.name):
            server = await caller.change(work, notice=f"added the MCP server {settings.name}")
            self.pool.supervise(server)
        return server

    async def remove(self, caller: Caller, name: str) -> None:
        """Disconnect and remove a server and its tools; keep their equipment.

        Raises:
            NotFound: if no server has that name.
            Conflict: if it is in the settings.
        """
        if await self.end_offer(caller, name):
            return
        async with self.pool.lock_for(name):
            server = await self.find(name)
            if server_records.is_of_toolset(server):
                raise Conflict(
                    f"{name} belongs to the toolset that has brought it.",
                    hint=next_call("Turn it off with {}.", "mcp disable", name=name),
                )
            if server_records.is_from_settings(server):
                raise Conflict(
                    f"{name} is in the settings file and would return at the next start.",
                    hint=next_call("Turn it off with {}.", "mcp disable", name=name),
                )
            await self.pool.end(server.id)
            await caller.change(
                lambda tx: server_records.remove_server(
                    tx, things.get_live_thing(tx.conn, server.id)
                ),
                notice=f"removed the MCP server {name}",
            )
            await self.oauth_sign_ins.forget(server)

    async def set_enabled(self, caller: Caller, name: str, wanted: bool) -> Thing:
        """Enable or disable a server; connect or disconnect it now.

        The room gets a notice only if this changes anything.
        """
        async with self.pool.lock_for(name):
            result = server = await self.find(name)
            word = "enabled" if wanted else "disabled"
            if server.enabled != wanted:
                result = await caller.change(
                    lambda tx: things.update_thing(tx, server.id, enabled=int(wanted)),
                    notice=f"{word} the MCP server {name}",
                )
            if not wanted:
                await self.oauth_sign_ins.cancel(server)
                await self.pool.end(server.id)
            elif self.pool.get(server.id) is None and server.parent_id not in await self._off():
                self.pool.supervise(result)
        return result

    async def _off(self) -> set[str]:
        """Return the ids of toolsets that are disabled, whose servers are not connected."""
        return await self.world.store.read(server_records.list_disabled_toolsets)

    async def wait_until_settled(self, name: str, seconds: float) -> ServerStatus:
        """Return a server's status when it is up or an attempt failed.

        Waits at most `seconds`.
        """
        server = await self.find(name)
        supervisor = self.pool.get(server.id)
        if supervisor is not None and not supervisor.is_up and not supervisor.reason:
            await supervisor.wait_until_settled(seconds)
        return self.status_of(server)

    async def refresh(self, name: str, seconds: float) -> None:
        """Read a server's tool listing now, or connect to it now.

        Raises:
            Unavailable: if it is disabled, or the connection fails.
        """
        server = await self.find(name)
        supervisor = self.pool.get(server.id)
        if supervisor is None:
            raise Unavailable(
                f"{name} is disabled.", hint=next_call("{} enables it.", "mcp enable", name=name)
            )
        await supervisor.refresh(seconds)
        if not supervisor.is_up:
            reason = f": {supervisor.reason}" if supervisor.reason else ""
            raise Unavailable(f"{name} is not connected{reason}.")

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
            fingerprints = self._read.get((caller.agent.id, server.id), {})
            return tool_approval.approve_tools(tx, server, tool, fingerprints)

        target = f"{tool} of {name}" if tool else f"the tools of {name}"
        return await caller.change(work, notice=f"approved {target}")

    def mark_read(self, caller: Caller, server: Thing, tools: Sequence[Thing]) -> None:
        """Record that the caller was shown the current text of these tools."""
        key = (caller.agent.id, server.id)
        self._read[key] = {tool.id: tool_approval.current_fingerprint(tool) for tool in tools}

    async def find(self, name: str) -> Thing:
        """Return the server of that name.

        Raises:
            NotFound: if no server has it.
        """
        return await self.world.store.read(lambda conn: server_records.find_server(conn, name))

    def status_of(self, server: Thing) -> ServerStatus:
        """Return the current status of a server."""
        supervisor = self.pool.get(server.id)
        if supervisor is None:
            return ServerStatus("disabled", "", 0.0, None, 0)
        return ServerStatus(
            supervisor.state,
            supervisor.reason,
            supervisor.since,
            supervisor.retry_at,
            supervisor.in_flight,
        )

    @override
    def why_unavailable(self, tool: Thing) -> str:
        supervisor = self.pool.get(tool.parent_id)
        return supervisor.why_down if supervisor is not None else ""

    @override
    def unavailable_hint(self, tool: Thing) -> Hint:
        name, supervisor = tool.label.partition(":")[0], self.pool.get(tool.parent_id)
        if supervisor is not None and supervisor.state == "needs-sign-in":
            return sign_in_hint(name)
        return next_call("Details: {}", "mcp show", name=name)

    def measure(self) -> list[ServerMeasure]:
        """Return figures of all enabled servers."""
        return [
            ServerMeasure(
                name=supervisor.settings.name,
                is_offered=(offered := self._offers.is_open(server_id)),
                is_program=supervisor.settings.url is None and not offered,
                state=supervisor.state,
                is_up=supervisor.is_up,
                calls=supervisor.calls.started_count,
                failed_calls=supervisor.calls.failed_count,
            )
            for server_id, supervisor in self.pool.running.items()
        ]

    def log_of(self, server: Thing) -> list[str]:
        """Return the last lines of a server's stderr and of notes about it."""
        supervisor = self.pool.get(server.id)
        return supervisor.log_buffer.last_lines() if supervisor else []

    # Provider of their tools.

    @override
    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        supervisor = self.pool.get(tool.parent_id)
        if supervisor is None:
            raise Unavailable(
                f"{caller.reader.name_tool(tool.label)} is unavailable: its server is not running.",
                hint=self.unavailable_hint(tool),
            )
        person = self.world.agents.get(caller.person_id or caller.agent.id)
        person_id = person.id if person is not None and person.kind != "model" else None
        remote = str(tool.metadata.get("remote", tool.name))
        return await supervisor.call(
            remote, arguments, person_id=person_id, report=caller.on_progress
        )
