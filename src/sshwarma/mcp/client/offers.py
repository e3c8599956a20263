"""Servers that people offer (`ssh host offer`) while their channel is open."""

from __future__ import annotations

import asyncio
from functools import partial

from typing_extensions import override

from sshwarma.common.shorten import join_with_rest
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.link import Dialer, LinkLost
from sshwarma.mcp.client.server_listener import MAX_SERVER_TOOL_NAMES
from sshwarma.mcp.client.server_pool import ServerPool, load_dial
from sshwarma.mcp.line_stream import LineStream
from sshwarma.settings import McpSettings
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.audit import record_change
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, Unavailable
from sshwarma.world.events import WorldChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.names import check_name
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World


class Offers:
    """Offered servers of a world, by the id of their things."""

    def __init__(self, world: World, pool: ServerPool) -> None:
        self._world = world
        self._pool = pool
        self._open: dict[str, _OfferedLines] = {}

    async def serve(self, caller: Caller, name: str, lines: LineStream) -> None:
        """Add the tools of a server that the caller offers to the caller's room.

        Returns when `lines` end, or when the caller loses the build right there, which they need.

        Raises:
            Invalid: if the name is not valid.
            Conflict: if the name is in use.
            Unavailable: if no MCP server responds, or another agent disconnected it.
        """
        check_name(name, "namespace")
        settings = McpSettings(name=name, command=(server_records.OFFERED_ORIGIN,), trust=True)
        offer = _OfferedLines(lines)

        async def dial() -> Dialer:
            if offer.is_dialled:
                offer.ended.set()
                raise LinkLost("the channel closed")
            offer.is_dialled = True
            return partial(await load_dial(), lines=offer)

        async with self._pool.lock_for(name):
            server = await caller.change(
                lambda tx: server_records.declare_offer(
                    tx, settings, caller.room_id, caller.agent.id
                )
            )
            supervisor = self._pool.supervise(server, dial)
            self._open[server.id] = offer
        try:
            await supervisor.wait_until_settled(settings.start_seconds)
            if not supervisor.is_up:
                raise Unavailable(
                    f"{name} is not a working MCP server: {supervisor.reason or 'no response'}."
                )
            await self._world.change(lambda tx: _announce_tools(tx, caller, server))
            await self._wait_until_ended(caller, offer)
            if offer.reason:
                raise Unavailable(offer.reason)
        finally:
            self._open.pop(server.id, None)
            await asyncio.shield(self._remove(caller, server))

    def is_open(self, server_id: str) -> bool:
        """Return whether a server is an offered one."""
        return server_id in self._open

    async def disconnect(self, caller: Caller, server: Thing) -> bool:
        """Disconnect an offered server; return whether `server` was one.

        The person who offered it gets the caller's name.
        """
        offer = self._open.get(server.id)
        if offer is None:
            return False
        await caller.change(
            lambda tx: None, notice=f"disconnected the offered server {server.name}"
        )
        offer.reason = f"{caller.agent.name} disconnected it."
        offer.ended.set()
        return True

    async def _wait_until_ended(self, caller: Caller, offer: _OfferedLines) -> None:
        """Wait until an offer ends, or the caller loses the right to offer in the room."""
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._watch_right(caller, offer))
            await offer.ended.wait()
            watch.cancel()

    async def _watch_right(self, caller: Caller, offer: _OfferedLines) -> None:
        """End an offer when the caller loses the build right in the room."""
        change_event = asyncio.Event()
        stops = (
            self._world.bus.on_agent(caller.agent.id, lambda event: change_event.set()),
            self._world.bus.on_event(WorldChanged, lambda event: change_event.set()),
        )
        try:
            while await self._may_offer(caller):
                await change_event.wait()
                change_event.clear()
            offer.reason = "You no longer have the build right there."
            offer.ended.set()
        finally:
            for stop in stops:
                stop()

    async def _may_offer(self, caller: Caller) -> bool:
        agent = self._world.agents.get(caller.agent.id)
        try:
            room = await self._world.room(caller.room_id)
        except NotFound:
            return False
        return (
            agent is not None
            and not agent.disabled
            and Right.BUILD in room.rights_of(agent, now=now_ms())
        )

    async def _remove(self, caller: Caller, server: Thing) -> None:
        await self._pool.end(server.id)

        def work(tx: Change) -> None:
            thing = things.get_thing(tx.conn, server.id)
            if thing is not None and thing.deleted_at is None:
                server_records.remove_server(tx, thing)
                caller.append_notice(tx, f"disconnected; the tools of {server.name} are gone")
                record_change(
                    tx,
                    door=caller.door,
                    verb="end offer",
                    request=server.name,
                    agent_id=caller.agent.id,
                    room_id=caller.room_id,
                    origin=caller.origin,
                )

        await self._world.change(work)


class _OfferedLines(LineStream):
    """Line stream that sets `ended` when it ends."""

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines
        self.ended = asyncio.Event()
        self.is_dialled = False
        self.reason = ""  # set if another agent disconnected it

    @override
    async def read_line(self, limit: int) -> bytes | None:
        line = None
        try:
            line = await self._lines.read_line(limit)
        finally:
            if line is None:
                self.ended.set()
        return line

    @override
    async def write(self, data: bytes) -> None:
        await self._lines.write(data)


def _announce_tools(tx: Change, caller: Caller, server: Thing) -> None:
    """Announce the offered tools to the room."""
    tools = [tool.name for tool in things.read_children(tx.conn, server.id, "tool")]
    names = join_with_rest(tools, MAX_SERVER_TOOL_NAMES)
    caller.append_notice(tx, f"offers {len(tools)} tools as {server.name}: {names}")
