"""The world as the program uses it: store, bus, presence, agents, caches.

No key press, line or look reads the database: rooms, loadouts and the tails of logs are cached here
under `version`, which every committed structural change increments.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from cachetools import LRUCache
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from sshwarma.common.background import ignore_outcome
from sshwarma.world import agents, loadout, rooms, rows, search
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.bootstrap import BuiltinToolSpec, start_world
from sshwarma.world.browser_sessions import SignInLinks
from sshwarma.world.causes import mark_cause
from sshwarma.world.databases import Location, make_dialect
from sshwarma.world.draining import Draining
from sshwarma.world.errors import WorldError, unknown_name_error
from sshwarma.world.events import (
    AgentEvicted,
    AgentsChanged,
    Event,
    EventBus,
    KeyRemoved,
    RowAppended,
    TurnsChanged,
    WorldChanged,
)
from sshwarma.world.failed_logins import FailedLogins
from sshwarma.world.ids import now_ms
from sshwarma.world.last_use import LastUse
from sshwarma.world.loadout import Loadout
from sshwarma.world.open_requests import OpenRequests
from sshwarma.world.presence import Presence
from sshwarma.world.reader import next_call
from sshwarma.world.reports import Reports
from sshwarma.world.request_keys import find_unstored_request
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row
from sshwarma.world.store import Change, Store
from sshwarma.world.stored_volume import StoredVolume
from sshwarma.world.things import Thing
from sshwarma.world.unread_messages import UnreadMessages

log = structlog.get_logger(__name__)
T = TypeVar("T")

MAX_MEMOS: Final = 8192
"""Maximum number of cached values; the least recently used is evicted first."""

MAX_TAIL_ROWS: Final = 200
"""Rows of each room's log kept in memory."""

MAX_TAILS: Final = 512
"""Maximum number of rooms whose tail is cached."""

AGENT_REFRESH_RETRY_SECONDS: Final = 1.0
"""Seconds until a changed agent that could not be read is read again."""

INDEX_QUIET_SECONDS: Final = 1.0
"""Idle seconds after the last append before the search index catches up."""


class World:
    """One world. Created by `await World.open(...)`; ended by `close`."""

    def __init__(self) -> None:
        self.bus = EventBus()
        self.presence = Presence(self.publish)
        self.agents = AgentDirectory()
        self.open_requests = OpenRequests(self.bus, self.agents)
        self.sign_in_links = SignInLinks()
        self.draining = Draining()
        self.bus.on_event(KeyRemoved, lambda event: self.sign_in_links.drop(event.agent_id))
        self.bus.on_event(AgentEvicted, lambda event: self.sign_in_links.drop(event.agent_id))
        self.text_volume = StoredVolume("text")
        self.file_volume = StoredVolume("files")
        self.unread_messages = UnreadMessages()
        self.open_feeds: Counter[str] = Counter()  # streams of events, by agent
        self.program_feeds: Counter[str] = Counter()  # those that a program reads
        self.version = 0
        self._detected_states: Mapping[str, frozenset[str]] = {}  # by room id
        self.store: Store
        self.reports: Reports
        self.last_use: LastUse
        self.failed_logins: FailedLogins
        self._memo_reads: dict[tuple[Hashable, int], asyncio.Future[Any]] = {}
        self._memos: LRUCache[Hashable, tuple[int, Any]] = LRUCache(MAX_MEMOS)
        self._cached_values: LRUCache[Hashable, tuple[Hashable, float, Any]] = LRUCache(MAX_MEMOS)
        self._tails: LRUCache[str, deque[Row]] = LRUCache(MAX_TAILS)
        self._stale_agent_ids: set[str] = set()
        self._refresh_task: asyncio.Task[None] | None = None
        self._index_timer: asyncio.TimerHandle | None = None
        self._index_task: asyncio.Task[None] | None = None
        self._appended_at = 0.0
        self._closing = False

    @classmethod
    async def open(cls, location: Location, tools: Sequence[BuiltinToolSpec]) -> World:
        """Open a world's database, created if missing.

        Raises:
            SchemaError: if it is damaged, or not at the newest schema.
        """
        dialect = make_dialect(location)
        await asyncio.to_thread(dialect.prepare)
        await asyncio.to_thread(dialect.claim)
        world = cls()
        world.store = Store(dialect, world.publish)
        world.reports = Reports(location)
        world.last_use = LastUse(world.store, world.agents)
        world.failed_logins = FailedLogins(world.store)
        try:
            await world.store.write(lambda tx: start_world(tx, tools))
            agent_list, keys = await world.store.read(agents.read_agents)
            removed_names = await world.store.read(agents.read_removed_names)
        except BaseException:
            await world.store.close()
            raise
        world.agents.load(agent_list, keys, removed_names)
        world._schedule_indexing()
        return world

    async def close(self) -> None:
        """Wait for pending writes, then close the file."""
        self._closing = True
        if self._index_timer is not None:
            self._index_timer.cancel()
        for task in (self._index_task, self._refresh_task):
            if task is not None:
                await asyncio.gather(task, return_exceptions=True)
        await self.reports.close()
        await self.last_use.close()
        await self.failed_logins.close()
        await self.store.close()

    async def change(self, work: Callable[[Change], T], *, may_postpone: bool = False) -> T:
        """Run one change: everything is on disk and published, or nothing.

        A change that nobody waits for may be postponed, for a moment, to share a commit. `work` may
        be run again after it was rolled back.

        Raises:
            WorldError: with the reason, if the world does not allow it.
        """
        # What nobody waits for is no part of a request.
        request = None if may_postpone else find_unstored_request()
        if request is not None:
            work = request.store_with(work)
        try:
            result = await self.store.write(mark_cause(work), may_postpone=may_postpone)
        except Exception:
            if request is not None:  # its key was not stored either
                request.is_stored = False
            raise
        if self._refresh_task is not None and not self._refresh_task.done():
            # A caller that changes an agent must see the change; cancelling the caller must not
            # stop that.
            await asyncio.shield(self._refresh_task)
        return result

    async def room(self, room_id: str) -> Room:
        """Return a live room.

        Raises:
            NotFound: if it was deleted.
        """
        return await self.memoized(("room", room_id), lambda conn: rooms.read_room(conn, room_id))

    async def rooms(self) -> list[Room]:
        """Every live room by name, without bags and exits."""
        return list((await self.rooms_by_id()).values())

    async def rooms_by_id(self) -> Mapping[str, Room]:
        """Every live room by its id, without bags and exits; ordered by name."""
        return await self.memoized("rooms", _read_rooms_by_id)

    async def rooms_behind(self, room: Room) -> Mapping[str, Room]:
        """The live rooms to which a room has exits, by id, without bags and exits."""
        ids = frozenset(way.to_id for way in room.exits)
        if not ids:
            return {}
        return await self.memoized(
            ("rooms behind", ids), lambda conn: rooms.read_rooms_by_id(conn, ids)
        )

    async def find_room(self, name: str) -> Room:
        """Return the live room with that name.

        Raises:
            NotFound: if there is no such room.
        """
        lower_name = name.lower()
        room_id = await self.memoized(
            ("room id", lower_name), lambda conn: rooms.find_room_id(conn, lower_name)
        )
        if room_id is None:
            raise unknown_name_error("room", name, hint=next_call("{} lists them.", "rooms"))
        return await self.room(room_id)

    async def loadout(
        self, room_id: str | None, agent_id: str | None, acting: Agent | None = None
    ) -> Loadout:
        """Return the things an agent can see and use in a room.

        `acting` is the agent with the role that it acts with, if that is another.
        """
        states = self.detected_states(room_id or "")
        agent = acting or self.agents.get(agent_id)

        def work(conn: Connection) -> Loadout:
            load, now = loadout.compute_loadout(conn, room_id, agent_id, states), now_ms()
            if agent is None or not any(
                item.source == "agent" for item in (*load.tools, *load.data)
            ):
                return load

            def is_open(room: Thing) -> bool:
                if room.id == room_id or room.deleted_at is not None:
                    return True  # the door checks this room; items of a deleted one show as removed
                return Right.ENTER in rooms.read_room(conn, room.id).rights_of(agent, now=now)

            return loadout.filter_reachable(conn, load, agent, is_open)

        return await self.memoized(("loadout", room_id, agent_id, agent and agent.role), work)

    def detected_states(self, room_id: str) -> frozenset[str]:
        """Return the states that were detected in a room."""
        return self._detected_states.get(room_id, frozenset())

    def set_detected_states(self, states: Mapping[str, frozenset[str]]) -> None:
        """Replace the detected states, by room id, and publish the rooms that changed."""
        old_states, self._detected_states = self._detected_states, states
        for room_id in old_states.keys() | states.keys():
            if old_states.get(room_id) != states.get(room_id):
                self.publish(WorldChanged(room_id))

    async def states(self, room_id: str) -> frozenset[str]:
        """Return the states of a room, set and detected."""
        detected_states = self.detected_states(room_id)
        return await self.memoized(
            ("states", room_id), lambda conn: loadout.read_states(conn, room_id) | detected_states
        )

    async def memoized(self, key: Hashable, query: Callable[[Connection], T]) -> T:
        """Return a cached query about structure, valid until the next structural change."""
        entry = self._memos.get(key)
        if entry is not None and entry[0] == self.version:
            return entry[1]  # type: ignore[no-any-return]
        version = self.version  # before the read: a change in the meantime makes the result stale
        reading = self._memo_reads.get((key, version))
        if reading is None:  # who asks while another reads waits for that: readers are few
            reading = asyncio.ensure_future(self.store.read(query))
            self._memo_reads[key, version] = reading
            reading.add_done_callback(lambda _: self._memo_reads.pop((key, version), None))
            reading.add_done_callback(ignore_outcome)
        result: T = await asyncio.shield(reading)  # others may wait for it if one is cancelled
        self._memos[key] = (version, result)
        return result

    def cached(self, key: Hashable, version: Hashable, seconds: float, make: Callable[[], T]) -> T:
        """Return a value computed from memory, cached while `version` stays the same.

        Values older than `seconds` expire: they hold idle times, which have no event.
        """
        now = time.monotonic()
        entry = self._cached_values.get(key)
        if entry is not None and entry[0] == version and now - entry[1] < seconds:
            return entry[2]  # type: ignore[no-any-return]
        value = make()
        self._cached_values[key] = (version, now, value)
        return value

    async def last_rows(self, room_id: str, limit: int) -> list[Row]:
        """Return a log's last rows, oldest first; MAX_TAIL_ROWS of them come from memory."""
        if limit > MAX_TAIL_ROWS:
            return await self.store.read(lambda conn: rows.read_tail(conn, room_id, limit))
        tail = self._tails.get(room_id)
        if tail is None:
            return (await self._read_tail(room_id))[-limit:] if limit else []
        return list(tail)[-limit:] if limit else []

    async def _read_tail(self, room_id: str) -> list[Row]:
        new_rows: list[Row] = []

        def collect_row(happened: Event) -> None:
            if isinstance(happened, RowAppended):
                new_rows.append(happened.row)

        stop = self.bus.on_room(room_id, collect_row)
        try:
            tail = await self.store.read(lambda conn: rows.read_tail(conn, room_id, MAX_TAIL_ROWS))
        finally:
            stop()
        newest_seq = tail[-1].seq if tail else 0
        tail += [row for row in new_rows if row.seq > newest_seq]
        self._tails[room_id] = deque(tail, maxlen=MAX_TAIL_ROWS)
        return tail

    async def index_rows(self) -> None:
        """Bring the search index up to date."""
        if not self.store.dialect.indexes_later:
            return
        while await self.store.write(search.index_next_rows):
            if self._closing:
                return

    def publish(self, happened: Event) -> None:
        """Update the caches before the bus publishes an event: they are never behind it."""
        if isinstance(happened, WorldChanged):
            self.version += 1
        elif isinstance(happened, RowAppended):
            tail = self._tails.get(happened.row.room_id)
            if tail is not None and (not tail or tail[-1].seq < happened.row.seq):
                tail.append(happened.row)  # unless it was read between its commit and this
            self.unread_messages.count_message(happened)
            self._schedule_indexing()
        elif isinstance(happened, TurnsChanged):
            self._tails.pop(happened.room_id, None)
        elif isinstance(happened, AgentsChanged):
            self._stale_agent_ids.add(happened.agent_id)
            self._start_refresh()
            return  # published once the directory is current
        self.bus.publish(happened)

    def _start_refresh(self) -> None:
        if not self._closing and (self._refresh_task is None or self._refresh_task.done()):
            self._refresh_task = asyncio.get_running_loop().create_task(self._refresh_agents())

    async def _refresh_agents(self) -> None:
        """Read changed agents again.

        A failed read is repeated after AGENT_REFRESH_RETRY_SECONDS: until it succeeds, a disabled
        agent or a removed key is still accepted. The change itself is stored, so its caller gets
        no error.
        """
        while self._stale_agent_ids:
            agent_id = self._stale_agent_ids.pop()
            try:
                agent, keys = await self.store.read(partial(agents.read_agent, agent_id=agent_id))
            except (WorldError, SQLAlchemyError) as error:
                self._stale_agent_ids.add(agent_id)
                log.error("an agent could not be read", agent=agent_id, error=repr(error))
                loop = asyncio.get_running_loop()
                loop.call_later(AGENT_REFRESH_RETRY_SECONDS, self._start_refresh)
                return
            self.agents.refresh(agent_id, agent, keys)
            self.bus.publish(AgentsChanged(agent_id))

    def _schedule_indexing(self) -> None:
        if not self.store.dialect.indexes_later:
            return
        loop = asyncio.get_running_loop()
        self._appended_at = loop.time()
        if self._index_timer is None and not self._closing:
            self._index_timer = loop.call_later(INDEX_QUIET_SECONDS, self._index_if_quiet)

    def _index_if_quiet(self) -> None:
        self._index_timer = None
        loop = asyncio.get_running_loop()
        if loop.time() - self._appended_at < INDEX_QUIET_SECONDS:
            self._schedule_indexing()
        elif self._index_task is None or self._index_task.done():
            self._index_task = loop.create_task(self.index_rows())
            self._index_task.add_done_callback(_report_unindexed_rows)


def _report_unindexed_rows(task: asyncio.Task[None]) -> None:
    """Log that indexing failed, as with a full disk; the next row tries it again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("the search index is behind", reason=repr(error))


def _read_rooms_by_id(conn: Connection) -> dict[str, Room]:
    return {room.id: room for room in rooms.read_rooms(conn)}
