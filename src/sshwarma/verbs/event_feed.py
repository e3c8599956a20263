"""The events of some rooms as one stream, for doors of programs.

Rows come in the order of their logs, each once: what the bus does not bring is read from the store.
A listener that is too slow loses its stream and not rows, because it begins again at its cursor.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from sshwarma.common.limits import MAX_EVENT_STREAMS_PER_AGENT, MAX_READ_EVENTS, MAX_WAITING_EVENTS
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.tools.approvals import APPROVAL_KEY
from sshwarma.verbs.draft_changes import DraftChanges
from sshwarma.verbs.heard_events import (
    EXTERNAL_KEY,
    AnswerEvent,
    Cursor,
    EndEvent,
    EventType,
    FilesEvent,
    HeardEvent,
    MemoryEvent,
    NoticeEvent,
    PresenceEvent,
    Reply,
    RoomEvent,
    RowEvent,
    Speaker,
    StartEvent,
    TurnsEvent,
    find_speaker,
)
from sshwarma.world import mentions, private_messages, rows
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, NotFound, RateLimited
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
    TurnsChanged,
    WorldChanged,
)
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row
from sshwarma.world.schema import rows as rows_table

_CALLING_KINDS: Final = ("chat", "emote")

MAX_SCANNED_ROWS: Final = 500
"""Rows before a program's message in which an earlier one is looked for."""


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
    ) -> None:
        """Listen in rooms that the caller may enter.

        Args:
            caller: who hears.
            rooms: the rooms.
            after: the position in their logs; None for now, also in a room that it lacks.
            types: the types of events that are wanted; all if there are none.
            with_own: whether the caller hears what it says itself.

        Raises:
            RateLimited: if the caller has MAX_EVENT_STREAMS_PER_AGENT.
        """
        self._caller = caller
        self._world = caller.world
        self._agent_id = caller.agent.id
        self._check_limit()
        self._names = {room.id: room.name for room in rooms}
        self._after = after
        self._types = frozenset(types)
        self._with_own = with_own
        self._at: dict[str, int] = {}
        self._private_at = 0
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
        self._world.open_feeds[self._agent_id] += 1
        bus = self._world.bus
        stops = [bus.on_room(room_id, self._on_event) for room_id in self._names]
        stops.append(bus.on_agent(self._caller.agent.id, self._on_event))
        for kind in (PresenceChanged, TurnsChanged, FilesChanged, MemoryChanged, WorldChanged):
            stops.append(bus.on_event(kind, self._on_room_event))
        return stops

    def close(self) -> None:
        """Stop listening; once is enough."""
        if not self._stops:
            return
        for stop in self._stops:
            stop()
        self._stops = []
        open_feeds = self._world.open_feeds
        open_feeds[self._agent_id] -= 1
        if not open_feeds[self._agent_id]:
            del open_feeds[self._agent_id]

    def end(self, reason: str, *, again: bool) -> None:
        """End the stream with a reason; `again` says that the rest can be heard later."""
        self._ending = self._ending or EndEvent(None, reason, again)
        self._changed.set()

    def _on_room_event(self, event: object) -> None:
        room_id = getattr(event, "room_id", None)
        if isinstance(event, WorldChanged) and (room_id is None or room_id in self._names):
            self._must_check = True
        if room_id in self._names:
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
        given = self._after or Cursor({})
        newest = await self._world.store.read(self._read_newest)
        for room_id in self._names:
            self._at[room_id] = given.rooms.get(room_id, newest.rooms.get(room_id, 0))
            if self._at[room_id] > newest.rooms.get(room_id, 0):
                raise Invalid(
                    f"after: is beyond the end of the log of {self._names[room_id]}.",
                    hint="Leave it out to begin now.",
                )
        now = newest.private or 0
        self._private_at = now if given.private is None else min(given.private, now)
        yield [StartEvent(self._cursor, tuple(self._names.values()))]
        while found := await self._world.store.read(self._read_later):
            yield [event for row in found if (event := await self._hear_row(row)) is not None]

    def _read_newest(self, conn: Connection) -> Cursor:
        newest = {room_id: rows.read_last_seq(conn, room_id) for room_id in self._names}
        return Cursor(newest, rows.read_newest_number(conn))

    def _read_later(self, conn: Connection) -> list[Row]:
        """Return rows after the present position, in the order of the world's log."""
        logs = private_messages.read_private_logs(conn, self._caller.agent.id)
        conditions: list[ColumnElement[bool]] = [
            and_(rows_table.c.room_id == room_id, rows_table.c.seq > seq)
            for room_id, seq in self._at.items()
        ]
        conditions.append(and_(rows_table.c.room_id.in_(logs), rows_table.c.n > self._private_at))
        query = select(rows_table).where(or_(*conditions)).order_by(rows_table.c.n)
        query = query.limit(MAX_READ_EVENTS)
        return [rows.row_from_mapping(row) for row in conn.execute(query).mappings()]

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
        while self._waiting:
            events += await self._hear(self._waiting.popleft())
        events += self._hear_drafts()
        if not self._names:
            reason = "No room is left that you may hear."
            return [*events, EndEvent(None, reason, again=False)], True
        return events, False

    async def _check_access(self) -> list[HeardEvent]:
        """Leave the rooms that the caller may no longer enter, and follow their names."""
        gone: list[HeardEvent] = []
        for room_id, name in list(self._names.items()):
            try:
                self._caller = await self._caller.with_room(room_id).refreshed()
                self._names[room_id] = (await self._caller.room()).name
            except (Forbidden, NotFound) as error:
                gone.append(EndEvent(name, error.message, again=False))
                del self._names[room_id]
                self._at.pop(room_id, None)
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
            case TurnsChanged(room_id=room_id, gone=gone, back=back) if self._wants("turns"):
                return self._in_room(room_id, lambda room: TurnsEvent(room, gone, back))
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
        name = self._names.get(room_id)
        return [] if name is None else [make(name)]

    async def _hear_appended(self, row: Row) -> list[HeardEvent]:
        """Return the event of a row, after those of rows that the bus has not brought."""
        if row.room_id in self._names:
            known = self._at[row.room_id]
            if row.seq <= known:
                return []
            if row.seq == known + 1:
                event = await self._hear_row(row)
                return [] if event is None else [event]
        events: list[HeardEvent] = []
        # Missing rows, or a private message, whose position only the store knows.
        while found := await self._world.store.read(self._read_later):
            events += [event for one in found if (event := await self._hear_row(one)) is not None]
        return events

    async def _hear_row(self, row: Row) -> RowEvent | None:
        """Move on to a row, and return its event; None if it is not heard."""
        is_private = row.room_id not in self._names
        if is_private:
            self._private_at = max(self._private_at, row.n)
        else:
            self._at[row.room_id] = max(self._at[row.room_id], row.seq)
        me = self._caller.agent
        if not self._wants("row") or (row.author_id == me.id and not self._with_own):
            return None
        agents = self._world.agents
        speaker = find_speaker(agents, row.author_id, is_external=bool(row.meta.get(EXTERNAL_KEY)))
        is_own = row.author_id == me.id
        to_me = is_private and not is_own
        calls = (
            row.kind in _CALLING_KINDS and not is_own and mentions.has_mention(row.content, me.name)
        )
        if calls and speaker.kind == "external":
            calls = not await self._world.store.read(lambda conn: self._is_called_again(conn, row))
        room = None if is_private else self._names[row.room_id]
        return RowEvent(
            id=self._cursor,
            room=room,
            seq=row.seq,
            at=row.created_at,
            kind=row.kind,
            speaker=speaker,
            text=row.content,
            to_you=to_me,
            mention=calls or to_me,
            reply=_find_reply(row, speaker, room, is_own=is_own),
            turn=row.turn_id,
            tool=str(row.meta["tool"]) if row.meta.get("tool") else None,
            approval=row.meta.get(APPROVAL_KEY),
        )

    def _is_called_again(self, conn: Connection, row: Row) -> bool:
        """Return whether a program has called this listener since a person spoke last."""
        before = rows.read_tail(
            conn, row.room_id, MAX_SCANNED_ROWS, before=row.seq, kinds=_CALLING_KINDS
        )
        for earlier in reversed(before):
            speaker = find_speaker(
                self._world.agents,
                earlier.author_id,
                is_external=bool(earlier.meta.get(EXTERNAL_KEY)),
            )
            if speaker.kind == "person":
                return False
            if speaker.kind == "external" and mentions.has_mention(
                earlier.content, self._caller.agent.name
            ):
                return True
        return False

    def _hear_drafts(self) -> Iterator[HeardEvent]:
        for part in self._drafts.read():
            room = self._names.get(part.room_id)
            if room is not None:
                speaker = find_speaker(self._world.agents, part.author_id, is_external=False)
                yield AnswerEvent(
                    room, part.turn_id, speaker, part.more, part.text, part.tools, part.waits
                )

    @property
    def _cursor(self) -> str:
        return str(Cursor(dict(self._at), self._private_at))


def _find_reply(row: Row, speaker: Speaker, room: str | None, *, is_own: bool) -> Reply | None:
    """Return how a row is answered; None for what nobody says, and for one's own."""
    if is_own or not speaker.name:
        return None
    if row.kind == "tell":
        return Reply("tell", {"name": speaker.name}, None)
    return Reply("say", {}, room) if row.kind in _CALLING_KINDS else None
