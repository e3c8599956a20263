"""Telling clients what has changed for them: their lists of tools, prompts and resources, and the
resources they subscribed to.

What happens in the world is gathered for a moment; then each listener is compared with what it was
told of last. So a client hears only of what concerns its agent where it stands, once, however much
was changed, and nothing is sent of a room that the agent may not enter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from sshwarma.mcp.server import prompts, resources
from sshwarma.mcp.server.clients import Guest, Visit
from sshwarma.mcp.server.tool_list import Catalogues
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.events import PresenceChanged, RowAppended, WorldChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

SETTLE_SECONDS: Final = 0.05
"""What happens within this time is told together."""

SEND_SECONDS: Final = 10.0
"""A client that does not take what it is sent for this long is told nothing more of this change."""

URIS: Final = 200
"""Resources that one listener may subscribe to."""

Send = Callable[[ServerEvent], Awaitable[None]]


@dataclass(eq=False)
class Listener:
    """One client that wants to hear. `lists` are the kinds of lists it wants to hear of."""

    visit: Visit
    send: Send
    lists: frozenset[type]
    uris: dict[str, object] = field(default_factory=dict)  # with their signatures
    told: dict[type, object] = field(default_factory=dict)
    waiting: dict[ServerEvent, None] = field(default_factory=dict)
    sending: asyncio.Task[None] | None = None

    @property
    def guest(self) -> Guest:
        return self.visit.guest


class Changes:
    """Everybody who wants to hear. `start` when the world is open, `stop` before it closes."""

    def __init__(self, world: World, catalogues: Catalogues) -> None:
        self._world = world
        self._catalogues = catalogues
        self._listeners: dict[Listener, None] = {}
        self._changed: set[str] = set()
        self._said: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        bus = self._world.bus
        self._stops = [
            bus.on(WorldChanged, self._room_changed),
            bus.on(PresenceChanged, self._room_changed),
            bus.on(RowAppended, self._row),
        ]

    async def add(self, listener: Listener) -> None:
        """Tell this client from now on."""
        caller = listener.visit.caller()
        for kind in listener.lists:
            listener.told[kind] = await self._signature(kind, caller)
        for uri in listener.uris:
            listener.uris[uri] = await resources.signature(caller, uri, (), ())
        self._listeners[listener] = None
        self._soon()  # something may have changed since it was looked at

    def remove(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        if listener.sending is not None:
            listener.sending.cancel()

    async def subscribe(self, listener: Listener, uri: str) -> None:
        """Tell this client of a resource too.

        Raises:
            NotFound, Forbidden: if its agent may not read it.
            Invalid: if it has too many.
        """
        caller = listener.visit.caller()
        await resources.check(caller, uri)
        if len(listener.uris) >= URIS and uri not in listener.uris:
            raise Invalid(f"{URIS} subscriptions is the most.")
        listener.uris[uri] = await resources.signature(caller, uri, (), ())

    async def stop(self) -> None:
        for stop in self._stops:
            stop()
        if self._timer is not None:
            self._timer.cancel()
        for listener in list(self._listeners):
            self.remove(listener)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _room_changed(self, event: WorldChanged | PresenceChanged) -> None:
        if event.room_id is not None:
            self._changed.add(event.room_id)
        self._soon()

    def _row(self, event: RowAppended) -> None:
        if self._listeners and event.audience is None:
            self._said.add(event.row.room_id)
            self._soon()

    def _soon(self) -> None:
        if not self._listeners:
            self._changed.clear()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        while True:
            self._again = False
            changed, self._changed = self._changed, set()
            said, self._said = self._said, set()
            for listener in list(self._listeners):
                try:
                    await self._compare(listener, changed, said)
                except WorldError as refused:
                    log.debug("a listener is not told", reason=str(refused))
            if not self._again:
                return

    async def _compare(self, listener: Listener, changed: set[str], said: set[str]) -> None:
        caller = listener.visit.caller()
        for kind in listener.lists:
            signature = await self._signature(kind, caller)
            if signature != listener.told[kind]:
                listener.told[kind] = signature
                self._send(listener, kind())
        for uri, before in list(listener.uris.items()):
            try:
                signature = await resources.signature(caller, uri, changed, said)
            except WorldError:
                continue  # it may not be read now; it is not told of either
            if signature is not None and signature != before and uri in listener.uris:
                listener.uris[uri] = signature
                self._send(listener, ResourceUpdated(uri))

    async def _signature(self, kind: type, caller: Caller) -> object:
        if kind is ToolsListChanged:
            return (await self._catalogues.of(caller)).signature
        if kind is PromptsListChanged:
            return await prompts.signature(caller)
        now = now_ms()
        rooms = await self._world.rooms()
        return caller.room_id, tuple(
            (room.id, room.name) for room in rooms if room.listed_for(caller.agent, now)
        )

    def _send(self, listener: Listener, event: ServerEvent) -> None:
        listener.waiting[event] = None  # that it changed twice is as good as once
        if listener.sending is None or listener.sending.done():
            work = self._deliver(listener)
            listener.sending = asyncio.get_running_loop().create_task(work)
            listener.sending.add_done_callback(_delivered)

    async def _deliver(self, listener: Listener) -> None:
        while listener.waiting:
            event = next(iter(listener.waiting))
            del listener.waiting[event]
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await listener.send(event)
            except TimeoutError:
                log.info("a client does not read what it asked for", agent=listener.guest.agent_id)


def _delivered(sending: asyncio.Task[None]) -> None:
    """A client that goes while it is told something is no trouble of ours."""
    if not sending.cancelled() and (error := sending.exception()) is not None:
        log.info("a client was not told", error=repr(error))


LISTS: Final = frozenset({ToolsListChanged, PromptsListChanged, ResourcesListChanged})
