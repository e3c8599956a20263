"""The page of the map: rooms as a picture and as a table."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_DRAWN_ROOMS
from sshwarma.terminal.width import cut_to_width
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.views import format_count
from sshwarma.web.console.frames import room_path
from sshwarma.web.console.map_layout import ROOM_HEIGHT, ROOM_WIDTH, MapLayout, lay_out
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.web.console.svg import make_element, make_picture
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.exits import Exit
from sshwarma.world.ids import now_ms
from sshwarma.world.rooms import Room

NAME_COLUMNS: Final = 15
PEOPLE_COLUMNS: Final = 17
"""Columns of the texts in the box of a room."""


@dataclass(frozen=True, slots=True)
class MappedRoom:
    """A room of the map.

    Attributes:
        exits: empty for a room that the viewer may not enter.
        people: names of those who are in it.
    """

    id: str
    name: str
    path: str
    access: str
    is_here: bool
    exits: tuple[Exit, ...]
    people: tuple[str, ...]


class MapPage:
    """The page `/map`."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        return [Route("/map", self._requests.page(self._show))]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        rooms, count = await _find_rooms(caller)
        picture, missing = await asyncio.to_thread(draw_map, rooms)
        return await self._requests.show_page(
            request, caller, "map.html", title="Map", rooms=rooms, picture=picture,
            more=count - len(rooms), missing=missing, here=rooms[0].name,
        )  # fmt: skip


async def _find_rooms(caller: Caller) -> tuple[list[MappedRoom], int]:
    """Return the nearest rooms, the viewer's first, and how many there are in all.

    Rooms that no exits lead to come last, by name.
    """
    now = now_ms()
    known = {room.id: room for room in await caller.known_rooms()}
    start = await caller.room()
    known.setdefault(start.id, start)
    people = await _list_people(caller)
    found: list[MappedRoom] = []
    seen: set[str] = set()
    for first in (start, *known.values()):
        queue = deque([first] if first.id not in seen else [])
        seen.add(first.id)
        while queue and len(found) < MAX_DRAWN_ROOMS:
            room = queue.popleft()
            may_enter = Right.ENTER in caller.rights_in(room, now)
            whole = await caller.world.room(room.id) if may_enter else room  # with its exits
            exits = await caller.visible_exits(whole) if may_enter else ()
            found.append(_make_room(room, exits, start.id, people))
            for way in exits:
                if way.to_id not in seen and way.to_id in known:
                    seen.add(way.to_id)
                    queue.append(known[way.to_id])
        if len(found) == MAX_DRAWN_ROOMS:
            break
    return found, len(known)


def _make_room(
    room: Room, exits: tuple[Exit, ...], start_id: str, people: dict[str, list[str]]
) -> MappedRoom:
    return MappedRoom(
        room.id, room.name, room_path(room.name), room.mode, room.id == start_id, exits,
        tuple(people.get(room.name, ())),
    )  # fmt: skip


async def _list_people(caller: Caller) -> dict[str, list[str]]:
    """Return who is in a room, by its name, each once."""
    people: dict[str, list[str]] = {}
    for one in (await invoke(caller, "who", {})).people:
        names = people.setdefault(one.room, [])
        if one.door != "model" and one.name not in names:
            names.append(one.name)
    return people


def draw_map(rooms: Sequence[MappedRoom]) -> tuple[Markup, int]:
    """Return the picture, and the number of names of exits for which it has no place."""
    exits = {room.id: [(way.direction, way.to_id) for way in room.exits] for room in rooms}
    layout = lay_out([room.id for room in rooms], exits)
    parts = [make_element("path", d=way.path, class_="way") for way in layout.ways]
    parts += [
        make_element("polygon", points=tip, class_="tip") for way in layout.ways for tip in way.tips
    ]
    parts += [
        make_element(
            "text", label.text, x=f"{label.x:.1f}", y=f"{label.y + 4:.1f}", class_="direction"
        )
        for label in layout.labels
    ]
    parts += [_draw_room(room, layout) for room in rooms]
    description = (
        f"{format_count(len(rooms), 'room')}, each a link, with arrows for exits. "
        f"An arrow before its name marks your room, {rooms[0].name}. The table has the same."
    )
    picture = make_picture(
        "map", f"Map around {rooms[0].name}", description, *parts, role="group",
        width=f"{layout.width:.0f}", height=f"{layout.height:.0f}",
    )  # fmt: skip
    return picture, layout.missing


def _draw_room(room: MappedRoom, layout: MapLayout) -> Markup:
    x, y = layout.places[room.id]
    count = len(room.people)
    who = f"{count}: {', '.join(room.people)}" if count else "nobody here"
    label = f"{room.name}, {f'{count} here: ' + ', '.join(room.people) if count else who}"
    mark = "→ " if room.is_here else ""
    return make_element(
        "a",
        make_element("title", label),
        make_element(
            "rect", x=f"{x - ROOM_WIDTH / 2:.1f}", y=f"{y - ROOM_HEIGHT / 2:.1f}",
            width=ROOM_WIDTH, height=ROOM_HEIGHT, rx=6, class_="room",
        ),
        make_element(
            "text", cut_to_width(f"{mark}{room.name}", NAME_COLUMNS), x=f"{x:.1f}",
            y=f"{y - 3:.1f}", class_="room-name",
        ),
        make_element(
            "text", cut_to_width(who, PEOPLE_COLUMNS), x=f"{x:.1f}", y=f"{y + 14:.1f}",
            class_="people",
        ),
        href=room.path, aria_label=f"{label}{', your room' if room.is_here else ''}",
        class_="is-here" if room.is_here else "elsewhere",
    )  # fmt: skip
