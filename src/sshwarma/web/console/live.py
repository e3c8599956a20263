"""`/live`: what happens in a room, as it happens, for one tab of a browser.

Nothing is queued for a tab: it is sent the rows after the last that it has; `room_drafts` sends the
answers that are being written. So a tab that reads slowly skips ahead, and costs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import (
    CONSOLE_AWAY_SECONDS,
    CONSOLE_RELOAD_SECONDS,
    CONSOLE_SEND_SECONDS,
    MAX_CONSOLE_ROWS,
    MAX_CONSOLE_TABS_PER_AGENT,
    MAX_CONSOLE_UPDATES_PER_SECOND,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.verbs.mem import find_memory, read_memory
from sshwarma.web._uvicorn import ABORT, WRITE_FRAME
from sshwarma.web.console.frames import room_path
from sshwarma.web.console.messages import draw_message
from sshwarma.web.console.room_drafts import AllDrafts, WriteFrame
from sshwarma.web.console.row_html import RowDrawings
from sshwarma.web.console.socket_end import LOST_ROOM, TOO_MANY, fit_reason
from sshwarma.world import movement
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden
from sshwarma.world.events import (
    AgentEvicted,
    FilesChanged,
    MemoryChanged,
    PresenceChanged,
    RowAppended,
    StreamEnded,
    TurnsChanged,
    WorldChanged,
)
from sshwarma.world.presence import AgentConnection
from sshwarma.world.row import Row
from sshwarma.world.seen_rows import note_seen
from sshwarma.world.tokens import Token
from sshwarma.world.world import World

_STALE: Final = {
    PresenceChanged: "here",
    WorldChanged: "tools",
    FilesChanged: "files",
    MemoryChanged: "memory",
    TurnsChanged: "turns",
}
"""What a panel shows that is stale after an event of that type."""

LEAVE_CHECK_SECONDS: Final = 1.0
"""Seconds between two looks at whether somebody whose tab has gone is still there."""


class LiveRooms:
    """The open sockets of all tabs."""

    def __init__(
        self, world: World, drawings: RowDrawings, find_last_request: Callable[[str], float]
    ) -> None:
        self._world = world
        self._drawings = drawings
        self._find_last_request = find_last_request  # of an agent, as time.monotonic() has it
        self._counts: Counter[str] = Counter()  # by agent
        self._drafts = AllDrafts(world)
        self._tasks = BackgroundTasks()
        self._leaving: set[AgentConnection] = set()

    async def serve(
        self, socket: WebSocket, caller: Caller, after: int, token: Token | None
    ) -> None:
        """Send what happens in the caller's room, until the tab or the right to it ends."""
        agent_id = caller.agent.id
        if self._counts[agent_id] >= MAX_CONSOLE_TABS_PER_AGENT:
            count_refusal("console_tabs")
            limit = with_limit("Too many open tabs of yours", MAX_CONSOLE_TABS_PER_AGENT)
            await socket.close(TOO_MANY, f"{limit}.")
            return
        self._counts[agent_id] += 1
        link = AgentConnection(agent_id, caller.room_id, "web")
        tab = _Tab(self._world, self._drawings, socket, caller, after)
        is_closed = False
        try:
            await movement.record_arrival(self._world, link)
            write = socket.scope["extensions"][WRITE_FRAME]
            self._drafts.add(caller.room_id, tab, partial(tab.write_draft, write))
            try:
                await tab.run()
            finally:
                self._drafts.remove(caller.room_id, tab)
            is_closed = not tab.reason
        finally:
            if tab.seen:
                mark = partial(note_seen, agent_id=agent_id, room_id=caller.room_id, seq=tab.seen)
                self._tasks.spawn(self._world.change(mark), name="note what was seen")
            self._counts[agent_id] -= 1
            if not self._counts[agent_id]:
                del self._counts[agent_id]
            if is_closed:  # perhaps it only loads its page again
                self._leaving.add(link)
                self._tasks.spawn(self._leave_later(link, token), name="leave a room")
            else:  # this task may be cancelled, and others must hear of it all the same
                await asyncio.shield(movement.record_departure(self._world, link))

    def is_leaving(self, link: AgentConnection) -> bool:
        """Return whether a connection is that of a tab that has gone."""
        return link in self._leaving

    async def _leave_later(self, link: AgentConnection, token: Token | None) -> None:
        """Record the departure of an agent that looks at no page of the console any more.

        Somebody in another room, without a session, or sent out of the room leaves at once.
        """
        agent_id = link.agent_id
        begin = partial(self._world.open_requests.begin, agent_id, room_id=link.room_id)
        with contextlib.suppress(Forbidden), begin(token=token):
            await asyncio.sleep(CONSOLE_RELOAD_SECONDS)
            while not self._counts[agent_id] and (left := self._seconds_to_stay(agent_id)) > 0:  # noqa: ASYNC110 - of many
                await asyncio.sleep(min(left, LEAVE_CHECK_SECONDS))
        self._leaving.discard(link)
        await movement.record_departure(self._world, link)

    def _seconds_to_stay(self, agent_id: str) -> float:
        """Return for how long an agent stays that asks for nothing more."""
        return self._find_last_request(agent_id) + CONSOLE_AWAY_SECONDS - time.monotonic()

    async def close(self) -> None:
        """Record the departures that wait."""
        await self._tasks.cancel()
        for link in self._leaving:
            await movement.record_departure(self._world, link)


class _Tab:
    """One tab of a browser, in one room.

    Attributes:
        reason: why its agent had to leave the room; "" if it had not.
    """

    def __init__(
        self, world: World, drawings: RowDrawings, socket: WebSocket, caller: Caller, after: int
    ) -> None:
        self._world = world
        self._drawings = drawings
        self._socket = socket
        self._caller = caller
        self._room_id = caller.room_id
        self._seq = after
        self._tells: deque[Row] = deque(maxlen=MAX_CONSOLE_ROWS)  # the page has those before
        # The newest row of turns whose text is in rows now; None of those that have ended.
        self._ended: dict[str, int | None] = {}
        self._has_moves = True
        self._stale: set[str] = set()
        self._projects: set[str] = set()  # containers of memories that have changed
        self.reason = ""
        self._changed = asyncio.Event()

    @property
    def seen(self) -> int:
        """Number of the last row that was sent; 0 without one."""
        return self._seq

    def write_draft(self, write: WriteFrame, frame: bytes) -> bool:
        """Write a frame as `write`, unless the agent had to leave."""
        return bool(self.reason) or write(frame)

    async def run(self) -> None:
        """Send until the browser closes the socket, or its agent has to leave."""
        bus = self._world.bus
        stops = [
            bus.on_room(self._room_id, self._on_event),
            bus.on_agent(self._caller.agent.id, self._on_event),
            *(bus.on_event(kind, self._on_change) for kind in _STALE),
        ]
        reading = asyncio.ensure_future(self._read())
        sending = asyncio.ensure_future(self._send())
        try:
            await asyncio.wait({reading, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for stop in stops:
                stop()
            for task in (reading, sending):
                task.cancel()
            await asyncio.wait({reading, sending})
        for task in (reading, sending):
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, WebSocketDisconnect):
                raise error  # a browser may have gone while it was sent something

    async def _read(self) -> None:
        """Read until the browser closes the socket; it has nothing to say."""
        while (await self._socket.receive())["type"] != "websocket.disconnect":
            pass

    def _on_event(self, event: object) -> None:
        match event:
            case StreamEnded(turn_id=turn_id):
                self._ended[turn_id] = None
            case RowAppended(row=row) if row.kind == "tell":
                self._tells.append(row)
            case RowAppended(row=row) if row.room_id == self._room_id:
                if row.kind == "notice":  # which is how a call asks, and how it is answered
                    self._stale.add("questions")
                if row.turn_id:
                    self._ended[row.turn_id] = row.seq
            case AgentEvicted(reason=reason):
                # Of an eviction from everywhere, the open request of the tab knows.
                if event.room_id == self._room_id:
                    self.reason = reason
            case _:
                return
        self._changed.set()

    def _on_change(self, event: Any) -> None:
        """Note what panels of this room show no longer; of a project's memory, any may."""
        if isinstance(event, MemoryChanged) and event.room_id is None:
            self._projects.add(event.scope_id)
            self._changed.set()
            return
        if event.room_id not in (self._room_id, None) and not isinstance(event, WorldChanged):
            return  # things elsewhere may be equipped here
        self._has_moves = self._has_moves or isinstance(event, PresenceChanged)
        self._stale.add(_STALE[type(event)])
        self._changed.set()

    async def _send(self) -> None:
        while True:
            self._changed.clear()
            for message in await self._take():
                if self.reason:  # what was said since is not for it
                    break
                try:
                    async with asyncio.timeout(CONSOLE_SEND_SECONDS):
                        await self._socket.send_text(json.dumps(message, ensure_ascii=False))
                except WebSocketDisconnect:  # it has gone meanwhile
                    return
                except TimeoutError:
                    self._socket.scope["extensions"][ABORT]()  # it reads nothing, also no close
                    return
            if self.reason:
                await self._socket.close(LOST_ROOM, fit_reason(self.reason))
                return
            await asyncio.sleep(1 / MAX_CONSOLE_UPDATES_PER_SECOND)
            await self._changed.wait()

    async def _take(self) -> list[dict[str, Any]]:
        """Return what is new: rows first, which end the drafts before them."""
        found = await self._world.last_rows(self._room_id, MAX_CONSOLE_ROWS)
        self._seq = min(self._seq, found[-1].seq if found else 0)  # which the browser has said
        found = [row for row in found if row.seq > self._seq]
        messages: list[dict[str, Any]] = []
        if found:
            if found[0].seq > self._seq + 1:
                messages.append({"type": "gap", "from": self._seq + 1, "to": found[0].seq - 1})
            self._seq = found[-1].seq
            room = await self._world.room(self._room_id)
            drawn = await self._drawings.draw(self._caller.agent, found, room_path(room.name))
            messages += [{"type": "row", "seq": seq, "html": html} for seq, html in drawn]
        while self._tells:
            row = self._tells.popleft()
            html = draw_message(self._world, self._caller.agent, row)
            messages.append({"type": "tell", "html": html, "at": row.created_at})
        ended, self._ended = self._ended, {}
        messages += [{"type": "end", "turn": turn, "row": seq} for turn, seq in ended.items()]
        if self._has_moves:
            self._has_moves = False
            here = self._world.presence.in_room(self._room_id)
            names = sorted({self._world.agents.name_of(one.agent_id) for one in here})
            messages.append({"type": "here", "names": names})
        if self._projects:
            changed, self._projects = self._projects, set()
            place = await find_memory(self._caller)  # others are not this tab's concern
            if await read_memory(self._caller, place, lambda _, scope_id: scope_id) in changed:
                self._stale.add("memory")
        stale, self._stale = self._stale, set()
        messages += [{"type": "stale", "what": what} for what in sorted(stale)]
        return messages
