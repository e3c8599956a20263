"""Change notifications: tool, prompt and resource lists, subscribed resources.

Events of the world are collected for NOTIFICATION_SETTLE_SECONDS; then the current state is
compared with what each listener last received. So a client gets one notification for many changes,
only of what its agent can see in its room, and nothing of a room that the agent may not enter.
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

from sshwarma.common.limits import MAX_SUBSCRIBED_RESOURCES
from sshwarma.common.messages import with_limit
from sshwarma.mcp.server import prompts, resources
from sshwarma.mcp.server.clients import ConnectedAgent, McpConnection
from sshwarma.mcp.server.tool_list import ToolListCache
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.events import MemoryChanged, PresenceChanged, RowAppended, WorldChanged
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

NOTIFICATION_SETTLE_SECONDS: Final = 0.05
"""Seconds of changes that are notified together."""

SEND_TIMEOUT_SECONDS: Final = 10.0
"""Seconds before an unread notification is dropped."""

OWN_CHANGE_TIMEOUT_SECONDS: Final = 1.0
"""Seconds that the result of a call waits for the notification of the change it made."""

LIST_TIMEOUT_SECONDS: Final = 1.0
"""Seconds that the result of a call waits for a client to read the new list, once notified."""

LIST_GRACE_SECONDS: Final = 0.15
"""Seconds for which the result waits after that. The list travels on another connection: without
this, one in three requests of Claude Code over HTTP still had the old list."""

SendEvent = Callable[[ServerEvent], Awaitable[None]]


@dataclass(eq=False)
class ChangeListener:
    """A receiver of notifications; `list_kinds` are the list events that it wants."""

    connection: McpConnection
    send: SendEvent
    list_kinds: frozenset[type]
    uris: dict[str, object] = field(default_factory=dict)  # with their signatures
    last_signatures: dict[type, object] = field(default_factory=dict)
    pending_events: dict[ServerEvent, None] = field(default_factory=dict)
    send_task: asyncio.Task[None] | None = None

    @property
    def client(self) -> ConnectedAgent:
        """The client of the connection."""
        return self.connection.client


class ChangeNotifier:
    """Sends notifications to all listeners.

    Call `start` when the world is open, and `stop` before it closes.
    """

    def __init__(self, world: World, catalogues: ToolListCache) -> None:
        self._world = world
        self._tool_lists = catalogues
        self._listeners: dict[ChangeListener, None] = {}
        self._changed_room_ids: set[str] = set()
        self._spoken_room_ids: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stale = False
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        """Listen to the events of the world."""
        bus = self._world.bus
        self._stops = [
            bus.on_event(WorldChanged, self._on_room_changed),
            bus.on_event(PresenceChanged, self._on_room_changed),
            bus.on_event(RowAppended, self._on_row),
            bus.on_event(MemoryChanged, lambda _: self._schedule()),
        ]

    async def add_listener(self, listener: ChangeListener) -> None:
        """Start notifying a listener."""
        caller = listener.connection.make_caller()
        for kind in listener.list_kinds:
            listener.last_signatures[kind] = await self._signature(kind, caller)
        for uri in listener.uris:
            listener.uris[uri] = await resources.resource_signature(caller, uri, (), ())
        self._listeners[listener] = None
        self._schedule()  # something may have changed since the signatures were read

    async def notify_own_changes(
        self, client: ConnectedAgent, own: ChangeListener | None, send: SendEvent, before: object
    ) -> None:
        """Notify a client's listeners of its new tool list; wait until one has read it.

        So a program that continues as soon as it has the result has the new list by then.
        `send` carries the notification to the listener `own`, that of the calling session. This one
        is notified of each difference to the list `before` the call, even if that was sent on the
        session's stream meanwhile, because a client need not have that stream.
        """
        work: list[Awaitable[None]] = []
        for listener in list(self._listeners):
            if listener.client is not client or ToolsListChanged not in listener.list_kinds:
                continue
            try:
                has_changed = await self._has_changed(listener, ToolsListChanged)
            except WorldError:
                continue  # its access has ended
            if listener is own:
                if listener.last_signatures[ToolsListChanged] != before:
                    work.append(send(ToolsListChanged()))
            elif has_changed:
                self._send(listener, ToolsListChanged())
            if listener.send_task is not None and not listener.send_task.done():
                work.append(asyncio.shield(listener.send_task))
        try:
            async with asyncio.timeout(OWN_CHANGE_TIMEOUT_SECONDS):
                await asyncio.gather(*work, return_exceptions=True)
        except TimeoutError:
            log.info("a result was not held back for a slow listener", agent=client.agent_id)
            return
        if work:
            await client.wait_for_tool_list(LIST_TIMEOUT_SECONDS, LIST_GRACE_SECONDS)

    def remove_listener(self, listener: ChangeListener) -> None:
        """Stop notifying a listener."""
        self._listeners.pop(listener, None)
        if listener.send_task is not None:
            listener.send_task.cancel()

    async def subscribe(self, listener: ChangeListener, uri: str) -> None:
        """Subscribe a listener to a resource.

        Raises:
            NotFound: if the resource does not exist, or must not be known to the agent.
            Forbidden: if the agent may not read it.
            Invalid: if the listener has MAX_SUBSCRIBED_RESOURCES subscriptions.
        """
        caller = listener.connection.make_caller()
        await resources.check_readable(caller, uri)
        if len(listener.uris) >= MAX_SUBSCRIBED_RESOURCES and uri not in listener.uris:
            raise Invalid(f"{with_limit('Too many subscriptions', MAX_SUBSCRIBED_RESOURCES)}.")
        listener.uris[uri] = await resources.resource_signature(caller, uri, (), ())

    async def stop(self) -> None:
        """Stop listening, and cancel notifications that are being sent."""
        for stop in self._stops:
            stop()
        if self._timer is not None:
            self._timer.cancel()
        for listener in list(self._listeners):
            self.remove_listener(listener)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _on_room_changed(self, event: WorldChanged | PresenceChanged) -> None:
        if event.room_id is not None:
            self._changed_room_ids.add(event.room_id)
        self._schedule()

    def _on_row(self, event: RowAppended) -> None:
        if self._listeners and event.audience is None:
            self._spoken_room_ids.add(event.row.room_id)
            self._schedule()

    def _schedule(self) -> None:
        if not self._listeners:
            self._changed_room_ids.clear()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                NOTIFICATION_SETTLE_SECONDS, self._start_task
            )

    def _start_task(self) -> None:
        self._timer = None
        if self._task is not None and not self._task.done():
            self._is_stale = True
            return
        self._task = asyncio.get_running_loop().create_task(self._notify_listeners())

    async def _notify_listeners(self) -> None:
        while True:
            self._is_stale = False
            changed_ids, self._changed_room_ids = self._changed_room_ids, set()
            spoken_ids, self._spoken_room_ids = self._spoken_room_ids, set()
            for listener in list(self._listeners):
                try:
                    await self._compare(listener, changed_ids, spoken_ids)
                except WorldError as error:
                    log.debug("a listener was skipped", reason=str(error))
            if not self._is_stale:
                return

    async def _compare(self, listener: ChangeListener, changed: set[str], spoken: set[str]) -> None:
        caller = listener.connection.make_caller()
        for kind in listener.list_kinds:
            if await self._has_changed(listener, kind, caller):
                self._send(listener, kind())
        for uri, old_signature in list(listener.uris.items()):
            try:
                signature = await resources.resource_signature(caller, uri, changed, spoken)
            except WorldError:
                continue  # not readable now, so not notified either
            if signature is not None and signature != old_signature and uri in listener.uris:
                listener.uris[uri] = signature
                self._send(listener, ResourceUpdated(uri))

    async def _has_changed(
        self, listener: ChangeListener, kind: type, caller: Caller | None = None
    ) -> bool:
        """Return whether a list of a listener has changed since this was last asked."""
        caller = caller or listener.connection.make_caller()
        signature = await self._signature(kind, caller)
        changed = signature != listener.last_signatures[kind]
        listener.last_signatures[kind] = signature
        return changed

    async def _signature(self, kind: type, caller: Caller) -> object:
        if kind is ToolsListChanged:
            return (await self._tool_lists.get_tool_list(caller)).signature
        if kind is PromptsListChanged:
            return await prompts.prompts_signature(caller)
        return caller.room_id, tuple((room.id, room.name) for room in await caller.known_rooms())

    def _send(self, listener: ChangeListener, event: ServerEvent) -> None:
        if listener not in self._listeners:
            return  # it was removed while its lists were compared
        listener.pending_events[event] = None  # equal events are sent once
        if listener.send_task is None or listener.send_task.done():
            work = self._deliver(listener)
            listener.send_task = asyncio.get_running_loop().create_task(work)
            listener.send_task.add_done_callback(_log_delivery_error)

    async def _deliver(self, listener: ChangeListener) -> None:
        while listener.pending_events:
            event = next(iter(listener.pending_events))
            del listener.pending_events[event]
            try:
                async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                    await listener.send(event)
            except TimeoutError:
                log.info("sending a notification timed out", agent=listener.client.agent_id)


def _log_delivery_error(sending: asyncio.Task[None]) -> None:
    """Log a delivery that failed, usually because the client disconnected."""
    if not sending.cancelled() and (error := sending.exception()) is not None:
        log.info("a notification was not delivered", error=repr(error))


LIST_EVENTS: Final = frozenset({ToolsListChanged, PromptsListChanged, ResourcesListChanged})
