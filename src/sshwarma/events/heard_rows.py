"""The rows of rooms as one listener hears them, with its position in their logs.

Every door that has events reads rows by this: streams, and `wait_events` of MCP.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from sshwarma.common.limits import MAX_EVENT_PAGE_CHARACTERS, MAX_READ_EVENTS
from sshwarma.events.calls_again import CALLING_KINDS, is_called_again
from sshwarma.events.event_types import (
    Cursor,
    Reply,
    RowEvent,
    Speaker,
    TurnsEvent,
    find_row_speaker,
    format_cursor,
)
from sshwarma.tools.approvals import APPROVAL_KEY
from sshwarma.world import mentions, private_messages, rows
from sshwarma.world.agents import Agent
from sshwarma.world.drop_turns import read_changed_rows
from sshwarma.world.errors import Invalid
from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.world import World

RowsEvent: TypeAlias = RowEvent | TurnsEvent
"""What is heard of a row."""


class Page(NamedTuple):
    """Rows that were read, with what is heard of each, and whether more follow."""

    heard: list[tuple[Row, list[RowsEvent]]]
    has_more: bool

    @property
    def events(self) -> list[RowsEvent]:
        """What is heard of the rows."""
        return [event for _, events in self.heard for event in events]


class HeardRows:
    """The rows that a listener hears, from a position on.

    Attributes:
        agent: who hears; its name is what calls it.
        names: the rooms in which it hears: their names by id.
    """

    def __init__(
        self, world: World, agent: Agent, names: dict[str, str], *, with_own: bool = False
    ) -> None:
        """Hear in rooms that the agent may enter.

        Args:
            world: the world of the rooms.
            agent: who hears.
            names: names of the rooms, by id.
            with_own: whether it hears what it says itself.
        """
        self._world = world
        self.agent = agent
        self.names = names
        self._with_own = with_own
        self._at: dict[str, int] = {}
        self._number = 0

    @property
    def cursor(self) -> Cursor:
        """The position after the rows that were heard."""
        return Cursor(dict(self._at), self._number)

    def leave_room(self, room_id: str) -> None:
        """Stop hearing a room."""
        del self.names[room_id]
        self._at.pop(room_id, None)

    async def begin(self, after: Cursor | None) -> None:
        """Take a position: that of a cursor, or the end of the logs.

        A room that the cursor lacks begins where the whole world was heard up to.

        Raises:
            Invalid: if the cursor is beyond the end of a log, as after the restore of a backup.
        """
        given = Cursor({}) if after is None else after

        def read(conn: Connection) -> None:
            newest = rows.read_newest_number(conn)
            self._number = newest if given.number is None else given.number
            if self._number > newest:
                raise _beyond_end("the world")
            for room_id, name in self.names.items():
                last = rows.read_last_seq(conn, room_id)
                seq = given.rooms.get(room_id)
                if seq is None and given.number is not None:
                    seq = rows.read_seq_at(conn, room_id, given.number)
                self._at[room_id] = last if seq is None else seq
                if self._at[room_id] > last:
                    raise _beyond_end(name)

        await self._world.store.read(read)

    async def read_page(self, limit: int = MAX_READ_EVENTS) -> Page:
        """Return the next rows, and move on to the last of them.

        At most `limit`, and fewer if they are long.
        """

        def read(conn: Connection) -> tuple[list[Row], int]:
            newest = rows.read_newest_number(conn)
            return self._read_later(conn, limit + 1), newest

        found, newest = await self._world.store.read(read)
        kept = list(rows.take_rows(iter(found[:limit]), MAX_EVENT_PAGE_CHARACTERS))
        has_more = len(found) > len(kept)
        heard = [(row, await self.hear(row)) for row in kept]
        if not has_more:
            self._number = max(self._number, newest)
        return Page(heard, has_more)

    def _read_later(self, conn: Connection, limit: int) -> list[Row]:
        """Return rows after the present position, in the order of the world's log."""
        logs = private_messages.read_private_logs(conn, self.agent.id)
        conditions: list[ColumnElement[bool]] = [
            and_(rows_table.c.room_id == room_id, rows_table.c.seq > seq)
            for room_id, seq in self._at.items()
        ]
        conditions.append(and_(rows_table.c.room_id.in_(logs), rows_table.c.n > self._number))
        query = select(rows_table).where(or_(*conditions)).order_by(rows_table.c.n).limit(limit)
        return [row_from_mapping(row) for row in conn.execute(query).mappings()]

    def is_next(self, row: Row) -> bool:
        """Return whether a row follows the last of its room."""
        return row.room_id in self.names and row.seq == self._at[row.room_id] + 1

    def has_heard(self, row: Row) -> bool:
        """Return whether a row of a room is not after the position."""
        return row.room_id in self.names and row.seq <= self._at[row.room_id]

    async def hear(self, row: Row) -> list[RowsEvent]:
        """Move on to a row, and return what is heard of it."""
        events: list[RowsEvent] = []
        self._number = max(self._number, row.n)
        if room := self.names.get(row.room_id):
            self._at[row.room_id] = max(self._at[row.room_id], row.seq)
            if changed := read_changed_rows(row.meta):
                events.append(TurnsEvent(room, row.seq, *changed))
        if row.author_id != self.agent.id or self._with_own:
            events.append(await self._make_event(row, room))
        return events

    async def _make_event(self, row: Row, room: str | None) -> RowEvent:
        world, me = self._world, self.agent
        speaker = find_row_speaker(world.agents, row)
        is_own = row.author_id == me.id
        to_me = room is None and not is_own
        calls = (
            row.kind in CALLING_KINDS and not is_own and mentions.has_mention(row.content, me.name)
        )
        if calls and speaker.kind in ("external", "model"):
            # Streams and hooks of an agent ask it of the same row.
            calls = not await world.memoized(
                ("called again", row.id, me.id),
                lambda conn: is_called_again(conn, world.agents, me, row),
            )
        return RowEvent(
            id=format_cursor(self._at, self._number),
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


def _beyond_end(name: str) -> Invalid:
    return Invalid(
        f"The cursor is beyond the end of the log of {name}.", hint="Leave it out to begin now."
    )


def _find_reply(row: Row, speaker: Speaker, room: str | None, *, is_own: bool) -> Reply | None:
    """Return how a row is answered; None for what nobody says, and for one's own."""
    if is_own or not speaker.name:
        return None
    if row.kind == "tell":
        return Reply("tell", {"name": speaker.name.rpartition("@")[2]})
    return Reply("say", {}, room) if row.kind in CALLING_KINDS else None
