"""Where one can go: rooms with what is new in them, and what waits for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_DESCRIBED_ROOMS
from sshwarma.tools.approval_people import may_approve
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.log_rows import make_snippet
from sshwarma.verbs.rooms import RoomListItem
from sshwarma.web.console.messages import Messages
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.presence import AgentConnection
from sshwarma.world.rooms import Room
from sshwarma.world.seen_rows import read_seen

READ_ROWS: Final = 100
"""Rows of each room in which new lines are counted, and the newest is looked for."""

NEVER: Final = 10**18
"""Stands for the last row that somebody has seen of a room in which they never were."""

_TALK: Final = ("chat", "emote")
"""Kinds of rows that the list of rooms shows the newest of."""


@dataclass(frozen=True, slots=True)
class DescribedRoom:
    """A room in the list.

    Attributes:
        unread: lines of others after the last row that the person has seen in a browser; 0 if it
            is there. At most READ_ROWS.
        newest: the newest line that somebody said, and who; "" without one.
        waiting: calls that wait for an answer that the person may give.
    """

    item: RoomListItem
    unread: int = 0
    newest: str = ""
    waiting: int = 0


class RoomsPage:
    """The first page, the list of keys, and the badges of what waits."""

    def __init__(
        self,
        requests: ConsoleRequests,
        messages: Messages,
        is_leaving: Callable[[AgentConnection], bool],
    ) -> None:
        self._requests = requests
        self._messages = messages
        self._is_leaving = is_leaving

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/", page(self._show)),
            Route("/keys", page(self._show_keys)),
            Route("/waiting", page(self._show_waiting)),
        ]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        return await self._requests.show_page(
            request, caller, "rooms.html", title="Rooms", own_room=(await caller.room()).name,
            entered=[room.name for room in await caller.readable_rooms()],
            rooms=await self._describe(caller),
            messages=await self._messages.render(caller.agent),
        )  # fmt: skip

    async def _describe(self, caller: Caller) -> list[DescribedRoom]:
        """Return the rooms that the caller may know of, the first with what is new."""
        listed = (await invoke(caller, "rooms", {})).rooms
        rooms = {room.name: room for room in await caller.known_rooms()}
        world, agent = caller.world, caller.agent
        seen = await world.store.read(lambda conn: read_seen(conn, agent.id))
        connections = world.presence.connections_of(agent.id)
        present = {one.room_id for one in connections if not self._is_leaving(one)}

        async def describe(item: RoomListItem) -> DescribedRoom:
            room = rooms.get(item.name)
            if room is None:  # it was renamed just now
                return DescribedRoom(item)
            if Right.ENTER not in room.rights_of(agent, now=now_ms()):
                return DescribedRoom(item)
            rows = await world.last_rows(room.id, READ_ROWS)
            said = next((row for row in reversed(rows) if row.kind in _TALK), None)
            since = seen.get(room.id, NEVER)
            unread = sum(
                row.seq > since and row.kind in _TALK and row.author_id != agent.id for row in rows
            )
            newest = ""
            if said is not None:
                first = said.content.strip().partition("\n")[0]
                newest = f"{world.agents.name_author(said)}: {make_snippet(first)}"
            waiting = self._count_waiting(caller, room)
            return DescribedRoom(item, 0 if room.id in present else unread, newest, waiting)

        described = await asyncio.gather(*map(describe, listed[:MAX_DESCRIBED_ROOMS]))
        return [*described, *map(DescribedRoom, listed[MAX_DESCRIBED_ROOMS:])]

    def _count_waiting(self, caller: Caller, room: Room) -> int:
        if not may_approve(caller.agent, room):
            return 0
        return len(self._requests.services.tools.approvals.list_in(room.id))

    async def _show_keys(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        return await self._requests.show_page(request, caller, "keys.html", title="Keys")

    async def _show_waiting(self, request: Request) -> Response:
        """Show links to unread messages and to rooms where calls wait for an answer.

        All pages ask for that.
        """
        caller, _ = await self._requests.find_caller(request)
        waiting = []
        if len(self._requests.services.tools.approvals):
            for room in await caller.known_rooms():
                if count := self._count_waiting(caller, room):
                    waiting.append((room.name, count))
        world = caller.world
        unread, _ = await world.unread_messages.read_unread(world.store, caller.agent.id, 1)
        html = self._requests.frames.render("waiting.html", waiting=waiting, unread=unread)
        return HTMLResponse(html)
