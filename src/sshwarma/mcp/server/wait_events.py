"""`wait_events`: long polling for events, for clients without notifications.

Events and cursors are those of the streams of the other doors: a cursor is valid over any
connection, in every room and after a restart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from sshwarma.common.limits import MAX_WAIT_EVENTS, MAX_WAIT_SECONDS
from sshwarma.events.choose_events import find_rooms
from sshwarma.events.event_types import (
    Cursor,
    NoticeEvent,
    RowEvent,
    TurnsEvent,
    parse_cursor,
)
from sshwarma.events.heard_rows import HeardRows, Page
from sshwarma.mcp.server.clients import ConnectedAgent
from sshwarma.mcp.server.notices import Notice
from sshwarma.terminal.render import render_plain
from sshwarma.verbs.log_rows import RowDisplayOptions, draw_row
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, NotFound
from sshwarma.world.events import PresenceChanged, StreamEnded, StreamUpdated
from sshwarma.world.reader import MCP_CLIENT

WAIT_REPORT_INTERVAL_SECONDS: Final = 10.0

MOVE_TIMEOUT_SECONDS: Final = 5.0
"""Seconds to wait until an agent is out of a room that was closed to it."""

WaitedEvent: TypeAlias = RowEvent | TurnsEvent | NoticeEvent


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events since a cursor; `cursor` is for the next call.

    Attributes:
        room: where the agent is.
        cursor: the position after the events.
        events: what happened, oldest first.
        more: whether further events are already waiting.
    """

    room: str
    cursor: str
    events: tuple[WaitedEvent, ...]
    more: bool


async def wait_events(
    caller: Callable[[], Caller],
    client: ConnectedAgent,
    cursor: str | None,
    seconds: float,
    rooms: Sequence[str] = (),
) -> tuple[EventBatch, str]:
    """Return the events by others after `cursor`, as a batch and as text.

    Without a cursor, it starts at the agent's last call: an answer to that call is not lost.

    Args:
        caller: returns the agent of the client, in the room where it is now.
        client: the client.
        cursor: that of an earlier result.
        seconds: how long to wait for the first event, at most MAX_WAIT_SECONDS.
        rooms: names of the rooms to hear; () for the agent's room, also when it moves.

    Raises:
        Invalid: if the cursor is invalid, or there are too many seconds or rooms.
        Forbidden, NotFound: if the agent may not read a room, or may not know of it.
    """
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise Invalid(f"The timeout must be 0 to {MAX_WAIT_SECONDS:.0f} seconds (got {seconds:g}).")
    deadline = time.monotonic() + seconds
    since = parse_cursor(cursor, "cursor") if cursor else _find_last_call(client)
    while True:
        current = caller()
        try:
            heard = await _choose_rooms(current, rooms)
        except (Forbidden, NotFound):
            if rooms or not await _wait_until_moved(current, client):
                raise
            continue  # a notice says why
        wake_event = asyncio.Event()
        bus, wake = current.world.bus, partial(_wake_on_change, wake_event)
        stops = [bus.on_room(room_id, wake) for room_id in heard.names]
        stops.append(bus.on_agent(current.agent.id, wake))
        try:
            await heard.begin(since)
            page = await heard.read_page(MAX_WAIT_EVENTS)
            since = heard.cursor
            if page.has_more and not page.events:
                continue  # all of them are the agent's own
            notices = _take_notices(client)
            seconds_left = deadline - time.monotonic()
            if page.events or notices or seconds_left <= 0:
                if not rooms:
                    client.set_position(since.number or 0)
                where = await caller().room()  # it may have been moved to another room
                return _make_batch(current, heard, where.name, page, notices)
            try:
                async with asyncio.timeout(min(seconds_left, WAIT_REPORT_INTERVAL_SECONDS)):
                    await wake_event.wait()
            except TimeoutError:
                if current.on_progress is not None:
                    current.on_progress("Nothing has happened yet.")
        finally:
            for stop in stops:
                stop()


def _find_last_call(client: ConnectedAgent) -> Cursor | None:
    return None if client.position is None else Cursor({}, client.position)


async def _choose_rooms(caller: Caller, names: Sequence[str]) -> HeardRows:
    """Return what to hear in these rooms, or in the caller's.

    Raises:
        Forbidden, NotFound: if the caller may not enter one of them.
        Invalid: if there are too many.
    """
    chosen = await find_rooms(caller, names)
    for room in chosen:
        await caller.require(Right.ENTER, room)
    return HeardRows(caller.world, caller.agent, {room.id: room.name for room in chosen})


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


def _take_notices(client: ConnectedAgent) -> list[Notice]:
    notices = list(client.notices)
    client.notices.clear()
    return notices


def _make_batch(
    caller: Caller, heard: HeardRows, room: str, page: Page, notices: list[Notice]
) -> tuple[EventBatch, str]:
    agents, me = caller.world.agents, caller.agent
    cursor = str(heard.cursor)
    events: list[WaitedEvent] = [
        _name_tool(event) if isinstance(event, RowEvent) else event for event in page.events
    ]
    events += [notice.event for notice in notices]
    options = RowDisplayOptions(timestamps=True, reader=MCP_CLIENT)
    lines = []
    for row, _ in page.heard:
        if row.author_id != me.id:
            line = render_plain(draw_row(row, agents, me.id, options))
            name = heard.names.get(row.room_id)
            lines.append(f"{name}: {line}" if name and len(heard.names) > 1 else line)
    text = "\n".join([*lines, *(notice.line for notice in notices)]) or "Nothing happened."
    batch = EventBatch(room, cursor, tuple(events), page.has_more)
    return batch, f"{text}\n{format_cursor(cursor)}"


def _name_tool(event: RowEvent) -> RowEvent:
    """Return the event with the name by which MCP clients call its tool."""
    return event if event.tool is None else replace(event, tool=MCP_CLIENT.name_tool(event.tool))


def format_cursor(cursor: str) -> str:
    """Return the line of a text result with the cursor for the next `wait_events`."""
    return f"Cursor for wait_events: {cursor}."
