"""The events of some rooms as one stream, for doors of programs.

Rows come in the order of their logs, each once: what the bus does not bring is read from the store.
A listener that is too slow loses its stream and not rows, because it begins again at its cursor.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any

from sshwarma.common.limits import (
    MAX_EVENT_PAGE_CHARACTERS,
    MAX_EVENT_STREAMS_PER_AGENT,
    MAX_WAITING_EVENTS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.events.draft_changes import DraftChanges
from sshwarma.events.event_types import (
    AnswerEvent,
    Cursor,
    EndEvent,
    EventType,
    FilesEvent,
    HeardEvent,
    MemoryEvent,
    NoticeEvent,
    PresenceEvent,
    RoomEvent,
    RowEvent,
    Speaker,
    StartEvent,
    TurnsEvent,
    find_speaker,
)
from sshwarma.events.heard_rows import HeardRows
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, NotFound, RateLimited
from sshwarma.world.events import (
    AgentEvicted,
    AgentsChanged,
    Announcement,
    FilesChanged,
    MemoryChanged,
    PersonalNotice,
    PresenceChanged,
    RowAppended,
    StreamEnded,
    StreamUpdated,
    WorldChanged,
)
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row


class EventFeed:
    """The events of rooms for one listener, from when it is read.

    Leaving `read` ends it. One that is never read, because its client has gone, costs nothing.
    """

    def __init__(
        self,
        caller: Caller,
        rooms: Sequence[Room],
        after: Cursor | None = None,
        types: Collection[EventType] = (),
        *,
        with_own: bool = False,
        is_of_program: bool = True,
    ) -> None:
        """Listen in rooms that the caller may enter.

        Args:
            caller: who hears.
            rooms: the rooms.
            after: the position in their logs; None for now, also in a room that it lacks.
            types: the types of events to hear; empty for all types.
            with_own: whether the caller hears what it says itself.
            is_of_program: whether a program reads it, and no person.

        Raises:
            RateLimited: if the caller has MAX_EVENT_STREAMS_PER_AGENT.
        """
        self._caller = caller
        self._world = caller.world
        self._agent_id = caller.agent.id
        self._check_limit()
        names = {room.id: room.name for room in rooms}
        self._heard = HeardRows(caller.world, caller.agent, names, with_own=with_own)
        self._after = after
        self._counts = [caller.world.open_feeds]
        self._counts += [caller.world.program_feeds] * is_of_program
        self._types = frozenset(types)
        self._waiting: deque[object] = deque()
        self._ending: EndEvent | None = None
        self._must_check = False
        self._drafts = DraftChanges()
        self._changed = asyncio.Event()
        self._stops: list[Callable[[], None]] = []  # none before it is read, and after its end

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return the schema of its events, which are the result for programs."""
        return handler(HeardEvent)

    def _check_limit(self) -> None:
        if self._world.open_feeds[self._agent_id] >= MAX_EVENT_STREAMS_PER_AGENT:
            count_refusal("event_streams")
            limit = with_limit("Too many open streams of events", MAX_EVENT_STREAMS_PER_AGENT)
            raise RateLimited(f"{limit}.", retry_after_seconds=10, hint="End one of them.")

    def _listen(self) -> list[Callable[[], None]]:
        """Count the stream, and listen on the bus; return what stops that."""
        self._check_limit()  # others may have begun since it was made
        for counts in self._counts:
            counts[self._agent_id] += 1
        bus = self._world.bus
        stops = [bus.on_room(room_id, self._on_event) for room_id in self._heard.names]
        stops.append(bus.on_agent(self._agent_id, self._on_event))
        for kind in (PresenceChanged, FilesChanged, MemoryChanged, WorldChanged):
            stops.append(bus.on_event(kind, self._on_room_event))
        return stops

    def close(self) -> None:
        """Stop listening; once is enough."""
        if not self._stops:
            return
        for stop in self._stops:
            stop()
        self._stops = []
        for counts in self._counts:
            counts[self._agent_id] -= 1
            if not counts[self._agent_id]:
                del counts[self._agent_id]

    def end(self, reason: str, *, again: bool) -> None:
        """End the stream with a reason; `again` says that the rest can be heard later."""
        self._ending = self._ending or EndEvent(None, reason, again)
        self._changed.set()

    def _on_room_event(self, event: object) -> None:
        room_id = getattr(event, "room_id", None)
        if isinstance(event, WorldChanged) and (room_id is None or room_id in self._heard.names):
            self._must_check = True
        if room_id in self._heard.names:
            self._on_event(event)
        elif self._must_check:
            self._changed.set()

    def _on_event(self, event: object) -> None:
        match event:
            case StreamUpdated() | StreamEnded():
                if not self._wants("answer"):
                    return
                self._drafts.take(event)
            case AgentsChanged() | AgentEvicted():
                self._must_check = True
                self._waiting.append(event)
            case _ if len(self._waiting) >= MAX_WAITING_EVENTS:
                reason = with_limit("You read too slowly: events wait", MAX_WAITING_EVENTS)
                self.end(f"{reason}.", again=True)
            case _:
                if isinstance(event, RowAppended) and event.row.turn_id:
                    self._drafts.forget(event.row.turn_id)  # the row has its text
                self._waiting.append(event)
        self._changed.set()

    def _wants(self, kind: EventType) -> bool:
        return not self._types or kind in self._types

    async def read(self, seconds: float | None = None) -> AsyncGenerator[list[HeardEvent], None]:
        """Yield the next events, at least one; an empty list each `seconds` without one.

        Raises:
            Invalid: if the cursor is beyond the end of a log, as after the restore of a backup.
            RateLimited: if the caller has MAX_EVENT_STREAMS_PER_AGENT.
        """
        loop = asyncio.get_running_loop()
        alarm: asyncio.TimerHandle | None = None
        self._stops = self._listen()
        try:
            async for page in self._read_missed():
                yield page
            while True:
                self._changed.clear()
                events, has_ended = await self._take()
                if events:
                    yield events
                if has_ended:
                    return
                if not self._changed.is_set():
                    # One timer for many events: to set one for each costs more than the event.
                    if alarm is None and seconds is not None:
                        alarm = loop.call_later(seconds, self._changed.set)
                    await self._changed.wait()
                    if alarm is not None and loop.time() >= alarm.when():
                        alarm = None
                        if not self._has_news:
                            yield []
        finally:
            if alarm is not None:
                alarm.cancel()
            self.close()

    async def _read_missed(self) -> AsyncIterator[list[HeardEvent]]:
        """Find the beginning, then yield what was appended since the cursor."""
        await self._heard.begin(self._after)
        yield [StartEvent(str(self._heard.cursor), tuple(self._heard.names.values()))]
        async for page in self._read_later():
            yield page

    async def _read_later(self) -> AsyncIterator[list[HeardEvent]]:
        while True:
            page = await self._heard.read_page()
            if page.events:
                yield self._choose(page.events)
            if not page.has_more:
                return

    def _choose(self, events: Iterable[RowEvent | TurnsEvent]) -> list[HeardEvent]:
        return [event for event in events if self._wants(event.type)]

    @property
    def _has_news(self) -> bool:
        return bool(self._waiting) or self._must_check or self._ending is not None

    async def _take(self) -> tuple[list[HeardEvent], bool]:
        """Return what is new, and whether nothing more comes."""
        events: list[HeardEvent] = []
        if self._ending is not None:
            return [self._ending], True
        if self._must_check:
            self._must_check = False
            events += await self._check_access()
        size = 0
        while self._waiting and size < MAX_EVENT_PAGE_CHARACTERS:
            heard = await self._hear(self._waiting.popleft())
            events += heard
            size += sum(len(one.text) for one in heard if isinstance(one, RowEvent))
        if self._waiting:
            self._changed.set()  # the rest once these are read: a slow reader holds one page
            return events, False
        events += self._hear_drafts()
        if not self._heard.names:
            reason = "No room is left that you may hear."
            return [*events, EndEvent(None, reason, again=False)], True
        return events, False

    async def _check_access(self) -> list[HeardEvent]:
        """Leave the rooms that the caller may no longer enter, and follow their names."""
        gone: list[HeardEvent] = []
        heard = self._heard
        for room_id, name in list(heard.names.items()):
            try:
                self._caller = await self._caller.with_room(room_id).refreshed()
                heard.names[room_id] = (await self._caller.room()).name
            except (Forbidden, NotFound) as error:
                gone.append(EndEvent(name, error.message, again=False))
                heard.leave_room(room_id)
        heard.agent = self._caller.agent
        return gone

    async def _hear(self, event: object) -> list[HeardEvent]:
        """Return the events that something on the bus is for this listener."""
        match event:
            case RowAppended(row=row):
                return await self._hear_appended(row)
            case PersonalNotice(sender=sender, text=text) if self._wants("notice"):
                return [NoticeEvent(Speaker(sender, "server"), text)]
            case Announcement(author=author, text=text) if self._wants("notice"):
                return [NoticeEvent(Speaker(author, "person"), text)]
            case PresenceChanged(room_id=room_id) if self._wants("presence"):
                here = self._world.presence.in_room(room_id)
                names = sorted(self._world.agents.name_of(one.agent_id) for one in here)
                return self._in_room(room_id, lambda room: PresenceEvent(room, tuple(names)))
            case FilesChanged(room_id=room_id, manifest_id=version) if self._wants("files"):
                return self._in_room(room_id, lambda room: FilesEvent(room, version, event.paths))
            case MemoryChanged(room_id=str(room_id)) if self._wants("memory"):
                by, key = self._world.agents.name_of(event.author_id), event.key
                return self._in_room(room_id, lambda room: MemoryEvent(room, key, event.done, by))
            case WorldChanged(room_id=str(room_id)) if self._wants("room"):
                return self._in_room(room_id, RoomEvent)
            case _:
                return []

    def _in_room(self, room_id: str, make: Callable[[str], HeardEvent]) -> list[HeardEvent]:
        name = self._heard.names.get(room_id)
        return [] if name is None else [make(name)]

    async def _hear_appended(self, row: Row) -> list[HeardEvent]:
        """Return the events of a row, after those of rows that the bus has not brought."""
        if self._heard.has_heard(row):
            return []
        if self._heard.is_next(row):
            return self._choose(await self._heard.hear(row))
        # Rows are missing, or it is a private message, which may have come by an earlier reading.
        return [event async for page in self._read_later() for event in page]

    def _hear_drafts(self) -> Iterator[HeardEvent]:
        for part in self._drafts.read():
            room = self._heard.names.get(part.room_id)
            if room is not None:
                speaker = find_speaker(self._world.agents, part.author_id)
                yield AnswerEvent(
                    room, part.turn_id, speaker, part.more, part.text, part.tools, part.waits
                )
