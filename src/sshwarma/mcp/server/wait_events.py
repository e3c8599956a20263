"""`wait_events`: long polling for events, for clients without notifications.

The cursor is a position in the world's log, so it is valid in every room, on every connection and
after a restart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import Connection, or_, select

from sshwarma.common.limits import MAX_WAIT_EVENTS, MAX_WAIT_SECONDS
from sshwarma.common.shorten import shorten_name
from sshwarma.mcp.server.clients import ConnectedAgent
from sshwarma.mcp.server.notices import Notice
from sshwarma.terminal.render import render_plain
from sshwarma.verbs.log_rows import RowDisplayOptions, draw_row
from sshwarma.world import mentions, private_messages, rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, NotFound
from sshwarma.world.events import PresenceChanged, StreamEnded, StreamUpdated
from sshwarma.world.reader import MCP_CLIENT
from sshwarma.world.row import Row
from sshwarma.world.schema import rows as rows_table

WAIT_REPORT_INTERVAL_SECONDS: Final = 10.0

CURSOR_HINT: Final = (
    "Pass the cursor of an earlier result, or omit it to get what happened since your last call of"
    " any tool."
)

MOVE_TIMEOUT_SECONDS: Final = 5.0
"""Seconds to wait until an agent is out of a room that was closed to it."""


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the room's log, or a message to this agent alone."""

    kind: str  # chat, emote, tell, presence, notice, tool.call, …; put_out, announcement
    who: str
    text: str
    at: int  # Unix milliseconds
    seq: int  # number of the row in its log; 0 for a message that is not a row
    mention: bool  # whether it mentions this agent, or is addressed to it alone
    tool: str = ""  # of a call or its result, the name of the tool


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events since a cursor; `cursor` is for the next call.

    `more` says that further events are already waiting.
    """

    room: str
    cursor: str
    events: tuple[Event, ...]
    more: bool


async def wait_events(
    caller: Callable[[], Caller], client: ConnectedAgent, cursor: str | None, seconds: float
) -> tuple[EventBatch, str]:
    """Return the events by others after `cursor`, as a batch and as text.

    Waits at most `seconds` for the first event. Without a cursor, it starts at the agent's last
    call, so that an answer to that call is not lost.

    Raises:
        Invalid: if the cursor is invalid or beyond the end of the log, or if `seconds` is out of
            range.
        Forbidden: if the agent may no longer read its room.
    """
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise Invalid(f"The timeout must be 0 to {MAX_WAIT_SECONDS:.0f} seconds (got {seconds:g}).")
    deadline = time.monotonic() + seconds
    since = _parse_cursor(cursor)
    if since is None:
        since = client.position
    while True:
        current = caller()
        try:
            room = await current.room()
            await current.require(Right.ENTER, room)
        except (Forbidden, NotFound):
            if not await _wait_until_moved(current, client):
                raise
            continue  # a notice says why
        wake_event = asyncio.Event()
        stops = [
            current.world.bus.on_room(room.id, partial(_wake_on_change, wake_event)),
            current.world.bus.on_agent(current.agent.id, partial(_wake_on_change, wake_event)),
        ]
        try:
            if since is None:
                since = await current.world.store.read(rows.read_newest_number)
            new_rows, since, has_more = await _read_rows_since(current, room.id, since)
            notices = _take_notices(client)
            if notices:  # it may have been moved to another room
                room = await caller().room()
            seconds_left = deadline - time.monotonic()
            if new_rows or notices or seconds_left <= 0:
                client.set_position(since)
                return _make_batch(
                    current,
                    room=room.name,
                    since=since,
                    found=new_rows,
                    notices=notices,
                    more=has_more,
                )
            try:
                async with asyncio.timeout(min(seconds_left, WAIT_REPORT_INTERVAL_SECONDS)):
                    await wake_event.wait()
            except TimeoutError:
                if current.on_progress is not None:
                    current.on_progress("Nothing has happened yet.")
        finally:
            for stop in stops:
                stop()


async def _wait_until_moved(caller: Caller, client: ConnectedAgent) -> bool:
    """Wait until the agent is out of a room closed to it; return whether it is.

    The room is closed, and its log says so, before those who are in it are removed.
    """
    move_event = asyncio.Event()
    stop = caller.world.bus.on_event(PresenceChanged, lambda _: move_event.set())
    try:
        async with asyncio.timeout(MOVE_TIMEOUT_SECONDS):
            while client.link is not None and client.link.room_id == caller.room_id:
                move_event.clear()
                await move_event.wait()
    except TimeoutError:
        return False
    finally:
        stop()
    return True


def _wake_on_change(happened: asyncio.Event, event: object) -> None:
    if not isinstance(event, (StreamUpdated, StreamEnded)):  # streamed text becomes a row later
        happened.set()


def _parse_cursor(cursor: str | None) -> int | None:
    if cursor is None or cursor == "":
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 18:
        raise Invalid(
            f"Invalid cursor {shorten_name(cursor)}.",
            hint=CURSOR_HINT,
        )
    return int(cursor)


async def _read_rows_since(caller: Caller, room_id: str, since: int) -> tuple[list[Row], int, bool]:
    """Return others' rows after `since`, the next position, and whether more follow.

    Raises:
        Invalid: if `since` is beyond the end of the log, as after the restore of a backup.
    """
    me = caller.agent.id

    def read(conn: Connection) -> tuple[list[Row], int]:
        newest_n = rows.read_newest_number(conn)
        if since > newest_n:
            raise Invalid(
                f"The cursor {since} is beyond the end of the world's log, which is at {newest_n}.",
                hint=CURSOR_HINT,
            )
        logs = [room_id, *private_messages.read_private_logs(conn, me)]
        query = (
            select(rows_table)
            .where(
                rows_table.c.n > since,
                rows_table.c.room_id.in_(logs),
                or_(rows_table.c.author_id != me, rows_table.c.author_id.is_(None)),
            )
            .order_by(rows_table.c.n)
            .limit(MAX_WAIT_EVENTS + 1)
        )
        return [rows.row_from_mapping(row) for row in conn.execute(query).mappings()], newest_n

    new_rows, newest_n = await caller.world.store.read(read)
    if len(new_rows) > MAX_WAIT_EVENTS:
        return new_rows[:MAX_WAIT_EVENTS], new_rows[MAX_WAIT_EVENTS - 1].n, True
    return new_rows, newest_n, False


def _take_notices(client: ConnectedAgent) -> list[Notice]:
    notices = list(client.notices)
    client.notices.clear()
    return notices


def _make_batch(
    caller: Caller, room: str, since: int, found: list[Row], notices: list[Notice], more: bool
) -> tuple[EventBatch, str]:
    agents, me = caller.world.agents, caller.agent
    events = [
        Event(
            kind=row.kind,
            who=agents.name_of(row.author_id),
            text=row.content,
            at=row.created_at,
            seq=row.seq,
            mention=row.kind == "tell" or mentions.has_mention(row.content, me.name),
            tool=MCP_CLIENT.name_tool(str(row.meta.get("tool", ""))),
        )
        for row in found
    ]
    now = int(time.time() * 1000)
    events += [
        Event(notice.kind, notice.author, notice.text, at=now, seq=0, mention=True)
        for notice in notices
    ]
    lines = [
        render_plain(
            draw_row(row, agents, me.id, RowDisplayOptions(timestamps=True, reader=MCP_CLIENT))
        )
        for row in found
    ]
    text = "\n".join([*lines, *(notice.line for notice in notices)]) or "Nothing happened."
    return EventBatch(room, str(since), tuple(events), more), f"{text}\n{format_cursor(since)}"


def format_cursor(position: int) -> str:
    """Return the line of a text result with the cursor for the next `wait_events`."""
    return f"Cursor for wait_events: {position}."
