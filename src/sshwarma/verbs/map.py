"""The verb map: the rooms around this room, drawn by direction."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sshwarma.common.limits import DEFAULT_MAP_DEPTH, MAX_MAP_DEPTH, MAX_MAP_ROOMS
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.terminal.width import cut_to_width, text_width
from sshwarma.verbs.arguments import Arg
from sshwarma.verbs.look import RoomExit
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import format_count, view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.exits import Exit
from sshwarma.world.ids import now_ms
from sshwarma.world.rooms import Room

MapDepth: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_MAP_DEPTH)]

STEPS: Final[Mapping[str, tuple[int, int]]] = {
    "north": (0, -1), "south": (0, 1), "east": (1, 0), "west": (-1, 0),
    "northeast": (1, -1), "northwest": (-1, -1), "southeast": (1, 1), "southwest": (-1, 1),
}  # fmt: skip
"""Columns to the right and rows down of the directions that a plan can show."""

MAX_PLAN_COLUMNS: Final = 1
"""Rooms to the left and to the right of the middle one: three cells fit 40 columns."""

MAX_PLAN_ROWS: Final = 3
"""Rooms above and below the middle one."""

CELL_COLUMNS: Final = 11
GAP_COLUMNS: Final = 2


@dataclass(frozen=True, slots=True)
class MapRoom:
    """A room of a map.

    Attributes:
        steps: exits from the caller's room to this one.
        column: cells to the right of the caller's room in the plan; None if it is not in the plan.
        row: cells below the caller's room; None if it is not in the plan.
        exits: its exits; empty for a room that the caller may not enter.
    """

    name: str
    access: str
    people: int
    steps: int
    column: int | None
    row: int | None
    exits: tuple[RoomExit, ...]


@dataclass(frozen=True, slots=True)
class RoomMap:
    """The rooms around the caller, the nearest first.

    `is_cut`: whether more are in reach.
    """

    room: str
    depth: int
    rooms: tuple[MapRoom, ...]
    is_cut: bool


@view(RoomMap)
def draw_room_map(result: RoomMap) -> Block:
    """Draw a plan of the rooms that directions give a place, and every room's exits."""
    lines = [*_draw_plan(result.rooms)]
    if lines:
        lines.append(line())
    for room in result.rooms:
        notes = [] if room.access == "open" else [f"[{room.access}]"]
        notes += [f"{room.people} here"] if room.people else []
        ways = ", ".join(f"{way.direction} → {way.to}" for way in room.exits) or "no exits"
        mark = "*" if room.steps == 0 else " "
        lines.append(
            line(
                ("mark", mark),
                " ",
                ("room", room.name),
                ("dim", f" {' '.join(notes)}" if notes else ""),
                f": {ways}",
                hang=4,
            )
        )
    count = format_count(len(result.rooms), "room")
    rest = "; there are more" if result.is_cut else ""
    lines.append(line(("dim", f"{count} within {format_count(result.depth, 'exit')}{rest}.")))
    return block(*lines)


def _draw_plan(rooms: Sequence[MapRoom]) -> Iterator[Line]:
    """Yield the rows of the plan: cells with names, and the ways between them."""
    cells = {
        (room.column, room.row): room
        for room in rooms
        if room.column is not None and room.row is not None
    }
    if len(cells) < 2:
        return
    ways = _list_ways(cells)
    columns = range(min(x for x, _ in cells), max(x for x, _ in cells) + 1)
    last_row = max(y for _, y in cells)
    for y in range(min(y for _, y in cells), last_row + 1):
        spans: list[Span] = []
        for x in columns:
            if x > columns[0]:
                is_way = ((x - 1, y), (x, y)) in ways
                spans.append(("dim", ("-" if is_way else " ") * GAP_COLUMNS))
            has_way_left, has_way_right = (
                ((near, y), (near + 1, y)) in ways for near in (x - 1, x)
            )
            spans += _draw_cell(cells.get((x, y)), has_way_left, has_way_right)
        yield Line(tuple(spans))
        if y < last_row:
            yield line(("dim", "".join(_draw_ways_down(columns, y, ways)).rstrip()))


def _draw_cell(room: MapRoom | None, has_way_left: bool, has_way_right: bool) -> list[Span]:
    """Draw the name of a room in the middle of its cell; ways go on to the edges."""
    if room is None:
        return [("", " " * CELL_COLUMNS)]
    mark = "*" if room.steps == 0 else ""
    name = cut_to_width(f"{mark}{room.name}", CELL_COLUMNS - 2)
    space = CELL_COLUMNS - 2 - text_width(name)
    left = ("-" if has_way_left else " ") * (space // 2)
    right = ("-" if has_way_right else " ") * (space - space // 2)
    return [("dim", f"{left}["), ("mark room" if mark else "room", name), ("dim", f"]{right}")]


def _draw_ways_down(
    columns: range, y: int, ways: set[tuple[tuple[int, int], tuple[int, int]]]
) -> Iterator[str]:
    """Yield the ways from a row of cells to the next.

    They are straight below each cell, slanted between two.
    """
    middle = CELL_COLUMNS // 2
    for x in columns:
        if x > columns[0]:
            falls, rises = ((x - 1, y), (x, y + 1)) in ways, ((x - 1, y + 1), (x, y)) in ways
            slant = "X" if falls and rises else "\\" if falls else "/" if rises else " "
            yield slant.ljust(GAP_COLUMNS)
        way = "|" if ((x, y), (x, y + 1)) in ways else " "
        yield way.rjust(middle + 1).ljust(CELL_COLUMNS)


def _list_ways(
    cells: Mapping[tuple[int, int], MapRoom],
) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    """List the pairs of neighbouring cells with an exit between them.

    The left or upper cell comes first.
    """
    ways = set()
    for (x, y), room in cells.items():
        for way in room.exits:
            dx, dy = STEPS.get(way.direction, (0, 0))
            target = cells.get((x + dx, y + dy))
            if target is not None and target is not room and target.name == way.to:
                first, second = sorted([(x, y), (x + dx, y + dy)])
                ways.add((first, second))
    return ways


@verb("map", section="Looking", needs=Right.ENTER, examples=("/map", "/map 5"))
async def show_map(caller: Caller, depth: MapDepth = DEFAULT_MAP_DEPTH) -> RoomMap:
    """Draw the rooms around.

    Follows the exits from this room, and shows the exits of each room that you may enter. A room
    that you may not know of is left out, with the exits to it. At most {MAX_MAP_ROOMS} rooms.

    Args:
        depth: number of exits to follow, at most {MAX_MAP_DEPTH} (default {DEFAULT_MAP_DEPTH}).
    """
    found, is_cut = await _find_rooms(caller, depth)
    places = _place_rooms(found)
    rooms = tuple(
        MapRoom(
            name=room.name,
            access=room.mode,
            people=caller.world.presence.count(room.id),
            steps=steps,
            column=places.get(room.id, (None, None))[0],
            row=places.get(room.id, (None, None))[1],
            exits=tuple(RoomExit(way.direction, way.to_name) for way in exits),
        )
        for room, steps, exits in found
    )
    return RoomMap(rooms[0].name, depth, rooms, is_cut)


FoundRoom: TypeAlias = tuple[Room, int, tuple[Exit, ...]]
"""A room, the number of exits on the way to it, and its exits that the caller may see."""


async def _find_rooms(caller: Caller, depth: int) -> tuple[list[FoundRoom], bool]:
    """Find the rooms within a number of exits; also return whether there are more."""
    now = now_ms()
    start = await caller.room()
    queue = deque([(start, 0)])
    seen = {start.id}
    found: list[FoundRoom] = []
    is_cut = False
    while queue:
        room, steps = queue.popleft()
        may_enter = Right.ENTER in caller.rights_in(room, now)
        exits = await caller.visible_exits(room) if may_enter else ()
        found.append((room, steps, exits))
        for way in exits:
            if way.to_id in seen:
                continue
            if steps == depth or len(seen) == MAX_MAP_ROOMS:
                is_cut = True
                continue
            seen.add(way.to_id)
            queue.append((await caller.world.room(way.to_id), steps + 1))
    return found, is_cut


def _place_rooms(found: Sequence[FoundRoom]) -> dict[str, tuple[int, int]]:
    """Place rooms on a plan by the directions of exits, the nearest first.

    A room whose place is taken or outside the plan is not placed, and no room is placed from it.
    """
    places = {found[0][0].id: (0, 0)}
    taken = {(0, 0)}
    for room, _, exits in found:
        place = places.get(room.id)
        if place is None:
            continue
        for way in exits:
            dx, dy = STEPS.get(way.direction, (0, 0))
            x, y = place[0] + dx, place[1] + dy
            is_inside = abs(x) <= MAX_PLAN_COLUMNS and abs(y) <= MAX_PLAN_ROWS
            is_known = any(other.id == way.to_id for other, _, _ in found)
            if is_known and is_inside and way.to_id not in places and (x, y) not in taken:
                places[way.to_id] = (x, y)
                taken.add((x, y))
    return places
