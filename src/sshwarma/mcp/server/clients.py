"""External agents as MCP clients: presence, open connections and running calls.

A client is an agent, not a connection. It is in one room and present while any of its requests,
streams, sessions or channels is open. HTTP requests are short, so an agent stays present for
STAY_AFTER_REQUEST_SECONDS after one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from cachetools import LRUCache

from sshwarma.common.background import BackgroundTasks, ignore_outcome
from sshwarma.common.limits import (
    MAX_CLIENT_CALLS_PER_AGENT,
    MAX_OPEN_REQUESTS_PER_AGENT,
    STAY_AFTER_REQUEST_SECONDS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.mcp.server.call_order import CallOrder
from sshwarma.mcp.server.notices import Notice, Notices, make_notices
from sshwarma.services import Services
from sshwarma.settings import ReloadableSettings
from sshwarma.world import movement, rows
from sshwarma.world.access import TokenScope
from sshwarma.world.agents import ACCOUNT_DISABLED_REASON, Agent
from sshwarma.world.audit import Origin
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Unavailable
from sshwarma.world.events import AgentEvicted, AgentsChanged, Announcement, TokenRevoked
from sshwarma.world.presence import AgentConnection
from sshwarma.world.tokens import EXPIRED_REASON, REVOKED_REASON, Token
from sshwarma.world.world import World

T = TypeVar("T")

CALL_STOP_TIMEOUT_SECONDS: Final = 5.0
"""Seconds for a cancelled call to clean up."""

MAX_REMEMBERED_POSITIONS: Final = 10_000
"""Agents whose last call is remembered; that of the least recent one is forgotten first."""


class McpConnection:
    """An open request, stream, session or channel of an agent.

    Attributes:
        token: The token that authenticated it; None for an ssh key.
        origin: Its address, and its key or token.
        stays: Whether the agent stays present for STAY_AFTER_REQUEST_SECONDS after it.
        is_session: Whether it is a session of the older protocol.
        request_id: Id of the JSON-RPC request that it carries over HTTP, once that is read.
        ended: Set when it must stop.
        reason: Why it must stop.
    """

    def __init__(
        self, client: ConnectedAgent, token: Token | None, origin: Origin, stays: bool
    ) -> None:
        self.client = client
        self.token = token
        self.origin = origin
        self.stays = stays
        self.is_session = False
        self.request_id: str | int | None = None
        self.ended = asyncio.Event()
        self.reason = ""
        self._expiry: asyncio.TimerHandle | None = None
        if token is not None and token.expires_at is not None:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(
                token.seconds_left, client.end_connections, EXPIRED_REASON, {token.id}
            )

    @property
    def scope(self) -> TokenScope:
        """The token's scope; without a token, everything that the agent may do."""
        return TokenScope.BUILD if self.token is None else self.token.scope

    @property
    def credential(self) -> str:
        """Id of the token, or empty; connections of one credential end together."""
        return "" if self.token is None else self.token.id

    def end(self, reason: str) -> None:
        """Ask it to stop, and cancel its running calls."""
        self.reason = self.reason or reason
        self.ended.set()
        self.client.stop_calls(self.credential)

    def close(self) -> None:
        """Remove it from its client."""
        if self._expiry is not None:
            self._expiry.cancel()
        self.client.remove_connection(self)

    def make_caller(self, report: Callable[[str], None] | None = None) -> Caller:
        """Return the agent as a caller, in its current room.

        Raises:
            Forbidden: if its access has ended.
        """
        clients = self.client.clients
        agent = clients.world.agents.get(self.client.agent_id)
        link = self.client.link
        if agent is None or agent.disabled or link is None or self.ended.is_set():
            raise Forbidden(self.reason or "Your access has ended.")
        caller = clients.make_caller(agent, link.room_id, link)
        return replace(caller, scope=self.scope, origin=self.origin, on_progress=report)

    async def run_call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a call in its own task; cancel it if the request or the connection ends.

        Raises:
            Unavailable: if the agent has MAX_CLIENT_CALLS_PER_AGENT calls running.
            Forbidden: if the connection ended during the call.
        """
        calls = self.client.calls
        if len(calls) >= MAX_CLIENT_CALLS_PER_AGENT:
            count_refusal("mcp_client_calls")
            work.close()
            raise Unavailable(
                f"{with_limit('Too many running calls', MAX_CLIENT_CALLS_PER_AGENT)}.",
                hint="Retry when one has finished.",
            )
        task = asyncio.get_running_loop().create_task(work)
        calls[task] = self.credential
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            # The canceller may cancel repeatedly; the call is cancelled once, and cleans up in the
            # background.
            task.cancel()
            task.add_done_callback(ignore_outcome)
            raise
        finally:
            if task.done():
                calls.pop(task, None)
            else:
                task.add_done_callback(lambda done: calls.pop(done, None))
        if task.cancelled():
            raise Forbidden(self.reason or "The call was cancelled.")
        return task.result()


@dataclass(eq=False)
class ConnectedAgent:
    """A connected agent; `notices` are messages to it that are in no log."""

    clients: ConnectedAgents
    agent_id: str
    link: AgentConnection | None = None
    connections: set[McpConnection] = field(default_factory=set)
    calls: dict[asyncio.Task[Any], str] = field(default_factory=dict)
    notices: Notices = field(default_factory=make_notices)
    enter_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    call_order: CallOrder = field(default_factory=CallOrder)
    stop_listening: Callable[[], None] | None = None
    _list_readers: set[asyncio.Event] = field(default_factory=set)  # waiting for a tools/list
    _stay_until: dict[str, float] = field(
        default_factory=dict
    )  # by token, seconds of time.monotonic
    _leave_timer: asyncio.TimerHandle | None = None
    _removed: asyncio.Event = field(default_factory=asyncio.Event)

    def add_connection(self, connection: McpConnection) -> None:
        """Add a connection; the agent stays present."""
        self.connections.add(connection)
        if self._leave_timer is not None:
            self._leave_timer.cancel()
            self._leave_timer = None

    async def wait_for_change(self) -> None:
        """Wait until a connection is removed."""
        self._removed.clear()
        await self._removed.wait()

    def remove_connection(self, connection: McpConnection) -> None:
        """Remove a connection. After a request the agent stays present for some seconds."""
        self.connections.discard(connection)
        self._removed.set()
        if connection.stays and connection.token is not None and not connection.ended.is_set():
            seconds = min(STAY_AFTER_REQUEST_SECONDS, connection.token.seconds_left)
            self._stay_until[connection.token.id] = time.monotonic() + seconds
        self.leave_when_done()

    def note_tool_list(self) -> None:
        """Note that a client of the agent has read its tool list."""
        for event in self._list_readers:
            event.set()

    async def wait_for_tool_list(self, seconds: float, grace: float) -> None:
        """Wait until a client has read the agent's tool list.

        Args:
            seconds: how long to wait at most.
            grace: how many seconds a client may need to take in the list that it was sent.
        """
        event = asyncio.Event()
        self._list_readers.add(event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
            await asyncio.sleep(grace)
        except TimeoutError:
            pass  # many clients read it when they need it
        finally:
            self._list_readers.discard(event)

    def forget_tokens(self, token_ids: set[str]) -> None:
        """End the stay after requests of these tokens."""
        for token_id in token_ids:
            self._stay_until.pop(token_id, None)
        self.leave_when_done()

    @property
    def position(self) -> int | None:
        """Position in the world's log where the agent's last call began; None if unknown.

        For `wait_events` it is the position up to which that call returned events.
        """
        return self.clients.positions.get(self.agent_id)

    def set_position(self, position: int) -> None:
        """Set the position of the agent's last call, also for its other connections."""
        self.clients.positions[self.agent_id] = position

    @property
    def session_count(self) -> int:
        """Number of open sessions of the older protocol."""
        return sum(connection.is_session for connection in self.connections)

    @property
    def token_ids(self) -> set[str]:
        """Tokens that keep the agent present."""
        return {connection.token.id for connection in self.connections if connection.token} | set(
            self._stay_until
        )

    def leave_when_done(self) -> None:
        """Leave if nothing is open; wait STAY_AFTER_REQUEST_SECONDS after a request."""
        if self.connections:
            return
        if self._leave_timer is not None:
            self._leave_timer.cancel()
            self._leave_timer = None
        wait = max(self._stay_until.values(), default=0.0) - time.monotonic()
        if wait <= 0:
            self.clients.remove_client(self)
        else:
            self._leave_timer = asyncio.get_running_loop().call_later(wait, self.leave_when_done)

    def stop_calls(self, credential: str) -> None:
        """Cancel the running calls of one credential."""
        for task, let_in_by in list(self.calls.items()):
            if let_in_by == credential:
                task.cancel()

    def end_connections(self, reason: str, token_ids: set[str] | None = None) -> None:
        """End all connections of the agent, or those of the given tokens."""
        for connection in list(self.connections):
            if token_ids is None or connection.credential in token_ids:
                connection.end(reason)
                connection.close()
        self.forget_tokens(self.token_ids if token_ids is None else token_ids)


class ConnectedAgents:
    """All agents connected over MCP."""

    def __init__(self, world: World, services: Services, settings: ReloadableSettings) -> None:
        self.world = world
        self.services = services
        self.settings = settings
        self.positions: LRUCache[str, int] = LRUCache(MAX_REMEMBERED_POSITIONS)
        self._clients: dict[str, ConnectedAgent] = {}
        self._background = BackgroundTasks()
        self._stopped = False
        self._stop_listening = world.bus.on_event(TokenRevoked, self._on_token_revoked)

    def __iter__(self) -> Iterator[ConnectedAgent]:
        return iter(list(self._clients.values()))

    async def open_connection(
        self, agent_id: str, token: Token | None, origin: Origin, *, stays: bool = False
    ) -> McpConnection:
        """Open a connection; the first one brings the agent into the world.

        With `stays`, the agent stays present for STAY_AFTER_REQUEST_SECONDS after it.

        Raises:
            Forbidden: if the agent's account is disabled or its access ends meanwhile.
            Unavailable: if MAX_OPEN_REQUESTS_PER_AGENT are open, or the server is stopping.
        """
        if self._stopped:
            raise Unavailable("The server is shutting down.")
        client = self._clients.get(agent_id)
        if client is None:
            client = self._clients[agent_id] = ConnectedAgent(self, agent_id)
            client.stop_listening = self.world.bus.on_agent(agent_id, self._make_listener(client))
        if len(client.connections) >= MAX_OPEN_REQUESTS_PER_AGENT:
            count_refusal("mcp_client_requests")
            raise Unavailable(
                f"{with_limit('Too many open requests and streams', MAX_OPEN_REQUESTS_PER_AGENT)}."
            )
        connection = McpConnection(client, token, origin, stays)
        client.add_connection(connection)
        try:
            async with client.enter_lock:
                await self._arrive(client)
            if connection.ended.is_set():
                raise Forbidden(connection.reason)
        except BaseException:
            connection.close()
            raise
        return connection

    def make_caller(
        self, agent: Agent, room_id: str, link: AgentConnection | None = None
    ) -> Caller:
        """Return an agent as a caller of this door, in a room."""
        return Caller(
            world=self.world,
            services=self.services,
            limits=self.settings.limits,
            agent=agent,
            room_id=room_id,
            door="mcp",
            connection=link,
        )

    async def _arrive(self, client: ConnectedAgent) -> None:
        agent = self.world.agents.get_enabled(client.agent_id)
        if client.link is None:
            caller = self.make_caller(agent, agent.room_id)
            room_id = (await caller.in_accessible_room()).room_id
            if client.position is None:
                client.set_position(await self.world.store.read(rows.read_newest_number))
            client.link = AgentConnection(agent.id, room_id, "mcp")
            await movement.record_arrival(self.world, client.link)
        if self._clients.get(agent.id) is not client:  # it was removed while arriving
            await movement.record_departure(self.world, client.link)

    def remove_client(self, client: ConnectedAgent) -> None:
        """Remove a client without open connections; its agent leaves the world."""
        if self._clients.get(client.agent_id) is client:
            del self._clients[client.agent_id]
            if client.stop_listening is not None:
                client.stop_listening()
            if client.link is not None:
                self._background.spawn(movement.record_departure(self.world, client.link))

    async def stop(self) -> None:
        """End all connections and wait for running calls."""
        self._stopped = True
        self._stop_listening()
        calls = [task for client in self for task in client.calls]
        for client in self:
            client.end_connections("The server is shutting down.")
        await self._background.wait(CALL_STOP_TIMEOUT_SECONDS, calls)

    def _make_listener(self, client: ConnectedAgent) -> Callable[[Any], None]:
        def on_event(event: Any) -> None:
            if isinstance(event, AgentEvicted):
                room_id = client.link.room_id if client.link is not None else ""
                if event.ends_connection(room_id):
                    client.end_connections(event.reason)
                elif event.moves_connection(room_id):
                    self._background.spawn(self._move_out(client, event.reason))
            elif isinstance(event, AgentsChanged):
                self._check_account(client)
            elif isinstance(event, Announcement):
                client.notices.append(Notice("announcement", event.author, event.text))

        return on_event

    async def _move_out(self, client: ConnectedAgent, reason: str) -> None:
        client.notices.append(Notice("put_out", "sshwarma", reason))
        agent = self.world.agents.get(client.agent_id)
        if agent is not None and client.link is not None:
            await movement.move_out_of_room(
                self.make_caller(agent, client.link.room_id, client.link)
            )

    def _check_account(self, client: ConnectedAgent) -> None:
        """End the connections of an agent that was disabled."""
        agent = self.world.agents.get(client.agent_id)
        if agent is None or agent.disabled:
            client.end_connections(ACCOUNT_DISABLED_REASON)

    def _on_token_revoked(self, event: TokenRevoked) -> None:
        client = self._clients.get(event.agent_id)
        if client is not None and event.token_id in client.token_ids:
            client.end_connections(REVOKED_REASON, {event.token_id})
