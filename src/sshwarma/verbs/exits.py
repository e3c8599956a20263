"""The verbs exits and route."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import RoomName
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import join_names, view
from sshwarma.world import exits
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.ids import now_ms
from sshwarma.world.reader import next_call


@dataclass(frozen=True, slots=True)
class ExitList:
    """The exits of a room."""

    room: str
    exits: tuple[tuple[str, str], ...]  # direction, room


@view(ExitList)
def draw_exit_list(result: ExitList) -> Block:
    """Draw the exits of a room."""
    if not result.exits:
        return block(line("There are no exits from ", ("room", result.room), "."))
    return block(
        line("Exits from ", ("room", result.room), ":"),
        *(line(f"  {direction} → ", ("room", to)) for direction, to in result.exits),
    )


@verb(
    "exits",
    section="Moving",
    needs=Right.ENTER,
    examples=("/exits",),
    default=True,
    covered_by="look",
)
async def exits_here(caller: Caller) -> ExitList:
    """List the exits of this room.

    For models:
        List the exits.
    """
    room = await caller.room()
    exits = await caller.visible_exits(room)
    return ExitList(room.name, tuple((way.direction, way.to_name) for way in exits))


@dataclass(frozen=True, slots=True)
class Route:
    """A shortest route: in each step a direction and the room that it leads to."""

    start: str
    to: str
    steps: tuple[tuple[str, str], ...]


@view(Route)
def draw_route(result: Route) -> Block:
    """Draw a shortest route, first its directions, then its steps."""
    if not result.steps:
        return block(line("You are in ", ("room", result.to), " already."))
    directions = [direction for direction, _ in result.steps]
    return block(
        line(
            ("room", result.start),
            " to ",
            ("room", result.to),
            ": ",
            *join_names(directions, "verb"),
            hang=2,
        ),
        *(line(f"  {direction} → ", ("room", to)) for direction, to in result.steps),
    )


@verb("route", section="Moving", needs=Right.ENTER, examples=("/route studio",))
async def route(caller: Caller, room: RoomName) -> Route:
    """Find the shortest way along exits.

    The way leads only through rooms that you may enter.

    Args:
        room: the destination.
    """
    world, now = caller.world, now_ms()
    target = await caller.find_room(room)
    start = await caller.room()
    exits_by_room = await world.memoized("all exits", exits.read_all_exits)
    open_rooms = {
        candidate.id
        for candidate in await world.rooms()
        if Right.ENTER in caller.rights_in(candidate, now) and caller.may_know_of(candidate, now)
    }
    path = exits.find_route(
        start.id,
        target.id,
        lambda here: (
            room_exit for room_exit in exits_by_room.get(here, ()) if room_exit.to_id in open_rooms
        ),
    )
    if path is None:
        raise NotFound(
            f"{target.name} cannot be reached through exits from {start.name}.",
            hint=next_call("{} goes there.", "join", room=target.name),
        )
    return Route(
        start.name,
        target.name,
        tuple((room_exit.direction, room_exit.to_name) for room_exit in path),
    )
