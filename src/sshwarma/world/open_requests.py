"""Requests in progress, each of which ends when the access it began with ends.

Doors begin a request here with its agent and token, `Tools.call` begins each call with its room,
and a turn of a model begins one of who asked. A request ends when its agent is disabled, its key is
removed, its token is revoked or expires, its agent is removed from its room, or somebody stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from itertools import count
from types import TracebackType
from typing import Self

from sshwarma.world.agents import ACCOUNT_DISABLED_REASON, AgentDirectory
from sshwarma.world.audit import origin_of_token
from sshwarma.world.errors import Conflict, Forbidden
from sshwarma.world.events import AgentEvicted, AgentsChanged, EventBus, KeyRemoved, TokenRevoked
from sshwarma.world.tokens import EXPIRED_REASON, REVOKED_REASON, SIGNED_OUT_REASON, Token


class OpenRequest:
    """A request in progress, as a context manager around its work.

    When the request ends, the work is cancelled and the block raises Forbidden with the reason, or
    Conflict if somebody stopped it.

    Attributes:
        room_id: the room it acts in; None while that is not known.
        token: the token that authenticated it; None for an ssh key.
        via: the key or token it came by, as the audit has it; "" if its door watches that itself.
        reason: why it must end; empty while it may continue.
        lost_access: whether the agent or the token lost access, rather than the room.
        work: what people in the room can stop, such as the name of a tool; "" if they cannot.
        number: by which they stop it alone; 0 without `work`.
        stopped_by: name of the agent that stopped it; "" if nobody did.
        has_ended: set when the block is left.
    """

    def __init__(
        self,
        requests: OpenRequests,
        agent_id: str,
        room_id: str | None,
        token: Token | None,
        via: str,
        work: str = "",
        number: int = 0,
    ) -> None:
        self.agent_id = agent_id
        self.room_id = room_id
        self.token = token
        self.via = via
        self.reason = ""
        self.lost_access = False
        self.work = work
        self.number = number
        self.stopped_by = ""
        self.has_ended = asyncio.Event()
        self._requests = requests
        self._task: asyncio.Task[object] | None = None
        self._cancel_requests = 0  # of the task, before this request cancelled it
        self._is_cancelled = False
        self._expiry: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancel_requests = self._task.cancelling() if self._task is not None else 0
        self._requests.add(self)
        if self.token is not None and self.token.expires_at is not None:
            self._expiry = loop.call_later(self.token.seconds_left, self.end_access, EXPIRED_REASON)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self._requests.discard(self)
        self.has_ended.set()
        if self._expiry is not None:
            self._expiry.cancel()
        if not self._is_cancelled or task is None:
            return
        # As in `asyncio.timeout`: a cancellation by anybody else stays a cancellation.
        is_own = task.uncancel() <= self._cancel_requests
        if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise (Conflict if self.stopped_by else Forbidden)(self.reason) from error

    def begin_work(self, room_id: str, work: str) -> None:
        """Say which room the request acts in, and what people there can stop."""
        self.room_id = room_id
        self.work, self.number = work, self._requests.take_number()

    def end(self, reason: str) -> None:
        """Cancel the work, for `reason`."""
        if not self.reason:
            self.reason = reason
            # Not at once: an event may be published by the work itself.
            asyncio.get_running_loop().call_soon(self._cancel)

    def stop(self, by: str, reason: str = "") -> None:
        """Cancel the work for the agent named `by`."""
        if not self.reason:
            self.stopped_by = by
            self.end(reason or f"{self.work} was stopped by {by}.")

    def end_work(self) -> None:
        """Say that the work is done. The rest, such as storing it, cannot be stopped."""
        self.work = ""
        if self.stopped_by and not self._is_cancelled:
            self.reason = self.stopped_by = ""

    def end_access(self, reason: str) -> None:
        """Cancel the work because its agent or token has no access any more."""
        self.lost_access = True
        self.end(reason)

    def _cancel(self) -> None:
        if self._task is not None and self.reason:
            self._is_cancelled = True
            self._task.cancel()


class OpenRequests:
    """All requests in progress, by agent."""

    def __init__(self, bus: EventBus, agents: AgentDirectory) -> None:
        self._agents = agents
        self._requests: dict[str, set[OpenRequest]] = {}
        self._numbers = count(1)
        bus.on_event(AgentEvicted, self._on_evicted)
        bus.on_event(AgentsChanged, self._on_agent_changed)
        bus.on_event(TokenRevoked, self._on_token_revoked)
        bus.on_event(KeyRemoved, self._on_key_removed)

    def begin(
        self,
        agent_id: str,
        *,
        room_id: str | None = None,
        token: Token | None = None,
        via: str = "",
        work: str = "",
    ) -> OpenRequest:
        """Return a request of an agent, to be used in a `with` block around its work."""
        number = self.take_number() if work else 0
        return OpenRequest(self, agent_id, room_id, token, via, work, number)

    def take_number(self) -> int:
        """Return the next number by which people stop work."""
        return next(self._numbers)

    def add(self, request: OpenRequest) -> None:
        """Add a request; entering it does."""
        self._requests.setdefault(request.agent_id, set()).add(request)

    def discard(self, request: OpenRequest) -> None:
        """Remove a request; leaving it does."""
        requests = self._requests.get(request.agent_id, set())
        requests.discard(request)
        if not requests:
            self._requests.pop(request.agent_id, None)

    def agents_in(self, room_id: str) -> set[str]:
        """Return the agents with a request in a room."""
        return {
            agent_id
            for agent_id, requests in self._requests.items()
            if any(request.room_id == room_id for request in requests)
        }

    def list_work(self, room_id: str) -> list[OpenRequest]:
        """Return the requests of a room whose work people can stop, by number."""
        found = (
            request
            for requests in self._requests.values()
            for request in requests
            if request.work and request.room_id == room_id
        )
        return sorted(found, key=lambda request: request.number)

    def rooms_of(self, agent_id: str) -> set[str]:
        """Return the rooms in which an agent has requests."""
        open_now = self._requests.get(agent_id, ())
        return {request.room_id for request in open_now if request.room_id is not None}

    def _on_evicted(self, event: AgentEvicted) -> None:
        for request in tuple(self._requests.get(event.agent_id, ())):
            if event.room_id is None:
                request.end_access(event.reason)
            elif event.room_id == request.room_id:
                request.end(event.reason)

    def _on_agent_changed(self, event: AgentsChanged) -> None:
        agent = self._agents.get(event.agent_id)
        if agent is None or agent.disabled:
            for request in tuple(self._requests.get(event.agent_id, ())):
                request.end_access(ACCOUNT_DISABLED_REASON)

    def _on_token_revoked(self, event: TokenRevoked) -> None:
        via = origin_of_token("", event.token_id).fingerprint
        for request in tuple(self._requests.get(event.agent_id, ())):
            token = request.token
            if token is not None and token.id == event.token_id and token.purpose == "browser":
                request.end_access(SIGNED_OUT_REASON)
            elif (token is not None and token.id == event.token_id) or request.via == via:
                request.end_access(REVOKED_REASON)

    def _on_key_removed(self, event: KeyRemoved) -> None:
        for request in tuple(self._requests.get(event.agent_id, ())):
            if request.via == event.fingerprint:
                request.end_access(event.reason)


async def wait_for_ends(requests: Iterable[OpenRequest], seconds: float) -> None:
    """Wait until requests have ended, at most some seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for one in requests:
                await one.has_ended.wait()
