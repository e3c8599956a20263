"""The rows of one room that hooks and triggers are for, and what wakes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

import structlog
from sqlalchemy import Connection

from sshwarma.events.event_types import Cursor, parse_cursor
from sshwarma.events.heard_rows import HeardRows, RowsEvent
from sshwarma.events.patterns import EventPattern, list_matches
from sshwarma.world import rows
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.events import AgentsChanged, EventBus, RowAppended, WorldChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.row import Row
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_UNSTORED_ROWS: Final = 500
"""Rows that are passed over before the position is stored: a restart reads them again."""


class Match(NamedTuple):
    """A row, what is heard of it, and the patterns that mean it."""

    row: Row
    event: RowsEvent
    on: tuple[str, ...]


class MatchingRows:
    """The rows that an agent may hear and that patterns mean, from a position on.

    Attributes:
        heard: all that is heard, with the position.
        has_more: whether rows follow that were not read.
        passed: rows that were read in all.
    """

    def __init__(
        self, world: World, room_id: str, agent_id: str, patterns: tuple[EventPattern, ...],
        cursor: str | None, *, with_own: bool,
    ) -> None:  # fmt: skip
        """Begin at a cursor; at the end of the log without one.

        Args:
            world: the world of the room.
            room_id: the room.
            agent_id: who hears.
            patterns: what is meant.
            cursor: up to where it has heard.
            with_own: whether it hears what it says itself.
        """
        self.has_more = False
        self.passed = 0
        self._world = world
        self._room_id = room_id
        self._agent_id = agent_id
        self._patterns = patterns
        self._cursor = cursor
        self._is_begun = False
        agent = world.agents.get(agent_id)
        self.heard = HeardRows(
            world, agent or Agent(agent_id, ""), {room_id: ""}, with_own=with_own
        )

    async def may_hear(self) -> bool:
        """Return whether the agent may hear the room now; follow their names."""
        agent = self._world.agents.get(self._agent_id)
        try:
            room = await self._world.room(self._room_id)
        except NotFound:
            return False
        if agent is None or room.explain_absence(agent, now_ms()):
            return False
        self.heard.agent = agent
        self.heard.names[room.id] = room.name
        return True

    async def read(self, limit: int | None = None) -> list[Match]:
        """Return what is meant of the next rows, of which `limit` are read at most."""
        if not self._is_begun:
            await self._begin()
        page = await (self.heard.read_page() if limit is None else self.heard.read_page(limit))
        self.has_more = page.has_more
        self.passed += len(page.heard)
        return [
            Match(row, event, on)
            for row, events in page.heard
            for event in events
            if (on := list_matches(self._patterns, event))
        ]

    async def _begin(self) -> None:
        try:
            await self.heard.begin(parse_cursor(self._cursor) if self._cursor else None)
        except Invalid:  # a backup was restored, in which the log is shorter
            log.warning("a cursor is beyond the end of its log", room=self._room_id)
            await self.heard.begin(None)
        self._is_begun = True


def read_end_cursor(conn: Connection, room_id: str) -> str:
    """Return the cursor at the end of a room's log, for who begins now."""
    last = {room_id: rows.read_last_seq(conn, room_id)}
    return str(Cursor(last, rows.read_newest_number(conn)))


class Wake:
    """What wakes who reads a room's rows: rows, or a change of what it may do.

    Attributes:
        event: set when there is something to do.
    """

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._has_rows = True  # those that came before it ran

    @classmethod
    @contextmanager
    def listening(cls, bus: EventBus, room_id: str, agent_id: str) -> Iterator[Wake]:
        """Hear of rows of a room and of private messages to an agent, within the block."""
        wake = cls()
        with ExitStack() as stops:
            for kind in (WorldChanged, AgentsChanged):
                stops.callback(bus.on_event(kind, wake.check))
            stops.callback(bus.on_room(room_id, wake.hear))
            stops.callback(bus.on_agent(agent_id, wake.hear))
            yield wake

    def check(self, event: object = None) -> None:
        """Wake it: rights or names may have changed."""
        self.event.set()

    def hear(self, event: object) -> None:
        """Wake it if a row has come; parts of answers, which are many, do not."""
        if isinstance(event, RowAppended):
            self.read()

    def read(self) -> None:
        """Wake it: there are rows."""
        self._has_rows = True
        self.event.set()

    def take_rows(self) -> bool:
        """Return whether rows have come since this was asked last."""
        has_rows, self._has_rows = self._has_rows, False
        return has_rows
