"""The verbs join, leave, go, create, fork, exits, route and nav."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from sshwarma.lua_tools import creation
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import ExitName, RoomName, Word
from sshwarma.verbs.exit_lookup import find_exit
from sshwarma.verbs.registry import group, verb
from sshwarma.verbs.rights import RoomRight
from sshwarma.verbs.views import join_names, view
from sshwarma.world import exits, movement, namespaces, things
from sshwarma.world import rooms as rooms_of_world
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound
from sshwarma.world.ids import LOBBY_ID, now_ms
from sshwarma.world.reader import next_call
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

MAX_COPY_NUMBER: Final = 999
"""Maximum number in the default name of a copied room."""


SOURCE_RIGHT: Final = RoomRight("room", Right.ENTER, "in the room that is copied")
"""The right that a verb which copies a room needs there."""


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The move of the caller to another room.

    `stays`: whether it is a model that answers, which stays where it was called.
    """

    room: str
    came_from: str
    made: bool = False
    stays: bool = False


@view(MoveResult)
def draw_move_result(moved: MoveResult) -> Block:
    """Draw the room that the caller has created or entered."""
    if not moved.stays:
        action = "Created" if moved.made else "You are in"
        return block(line(f"{action} ", ("room", moved.room), "."))
    action = "Created" if moved.made else "You may enter"
    stay = f", but while you answer you and your tools stay in {moved.came_from}."
    return block(line(f"{action} ", ("room", moved.room), stay, hang=2))


@verb(
    "join",
    section="Moving",
    aliases=("j",),
    examples=("/join workshop",),
    default=True,
    moves=True,
    scope=TokenScope.ACT,
)
async def join(caller: Caller, room: RoomName) -> MoveResult:
    """Go to a room.

    Works from any room. If the room does not exist or you may not enter it, you stay where you
    are.

    For people:
        /create makes a room.

    For models:
        Go to a room.

    Args:
        room: the name of the room.
    """
    try:
        target = await caller.find_room(room)
    except NotFound:
        if not await _is_namespace(caller, room):
            raise
        raise NotFound(
            f"{room} is a namespace of tools, not a room to stand in.",
            hint=next_call("{} loads its tools.", "load", room=room),
        ) from None
    return await move_to_room(caller, target)


async def _is_namespace(caller: Caller, name: str) -> bool:
    try:
        await caller.world.store.read(
            lambda conn: namespaces.find_namespace(conn, name, caller.room_id)
        )
    except NotFound:
        return False
    return True


@verb(
    "leave", section="Moving", examples=("/leave",), default=True, moves=True, scope=TokenScope.ACT
)
async def leave(caller: Caller) -> MoveResult:
    """Go back to the lobby."""
    return await move_to_room(caller, await caller.world.room(LOBBY_ID))


@verb(
    "go",
    section="Moving",
    needs=Right.ENTER,
    examples=("/go north", "/go n"),
    default=True,
    moves=True,
    scope=TokenScope.ACT,
)
async def go(caller: Caller, direction: ExitName) -> MoveResult:
    """Take an exit.

    For models:
        Take an exit: its direction or name.

    Args:
        direction: n s e w u d ne nw se sw in out, or the name of an exit.
    """
    way = await find_exit(caller, direction)
    return await move_to_room(caller, await caller.world.room(way.to_id), way.direction)


@verb(
    "create",
    section="Moving",
    needs=Right.CREATE,
    examples=("/create workshop",),
    default=True,
    moves=True,
)
async def create(caller: Caller, room: Word) -> MoveResult:
    """Create a room and go there.

    You own the new room and go there. It gets the equipment of `defaults`. It can have your own
    name, but not the name of another agent.

    For models:
        Create a room of this name and go there.

    Args:
        room: its name: a lower-case letter, then letters, digits, - or _; at most
            {MAX_NAME_CHARACTERS} characters.
    """
    new_room = await caller.change(
        lambda tx: rooms_of_world.create_room(tx, room.lower(), caller.agent)
    )
    move = await move_to_room(caller, await caller.world.room(new_room.id))
    return replace(move, made=True)


@verb(
    "fork",
    section="Moving",
    needs=Right.CREATE,
    also_needs=(SOURCE_RIGHT,),
    examples=("/fork workshop", "/fork workshop annex"),
    moves=True,
)
async def fork(caller: Caller, room: RoomName, new: Word | None = None) -> MoveResult:
    """Copy a room without its conversation.

    Copies its texts, equipment, things and exits and who may enter, but not its log and its
    members. You own the copy and go there.

    Args:
        room: the room to copy.
        new: name of the copy (default: ROOM-2, or the next free number).
    """
    return await copy_room(caller, room, new, rooms_of_world.fork_room)


async def copy_room(
    caller: Caller,
    room: str,
    new: str | None,
    copy: Callable[[Change, str, str, Agent], Thing],
) -> MoveResult:
    """Copy a room with its tools, and take the caller there.

    Args:
        caller: who copies it, may enter it (`SOURCE_RIGHT`) and owns the copy.
        room: the name of the room to copy.
        new: the name of the copy; None for ROOM-2, or the next free number.
        copy: copies the room of an id under a name, for an owner.

    Raises:
        NotFound: if the caller may not know of the room.
        Conflict: if the name is taken, or every number.
    """
    source = await caller.find_room(room)
    room_names = {existing_room.name for existing_room in await caller.world.rooms()}
    candidates = (f"{source.name}-{number}" for number in range(2, MAX_COPY_NUMBER + 1))
    name = (
        new.lower()
        if new
        else next((candidate for candidate in candidates if candidate not in room_names), None)
    )
    if name is None:
        raise Conflict(
            f"{source.name}-2 to {source.name}-{MAX_COPY_NUMBER} are taken.",
            hint="Give the copy a name.",
        )

    def work(tx: Change) -> Thing:
        room = copy(tx, source.id, name, caller.agent)
        creation.copy_tools(tx, source.id, room, caller.agent.id)
        return room

    new_room = await caller.change(work)
    move = await move_to_room(caller, await caller.world.room(new_room.id))
    return replace(move, made=True)


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


@verb("exits", section="Moving", needs=Right.ENTER, examples=("/exits",), default=True)
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


@dataclass(frozen=True, slots=True)
class Navigation:
    """Whether models and agents may leave a room."""

    room: str
    on: bool


@view(Navigation)
def draw_navigation(result: Navigation) -> Block:
    """Draw whether models may leave a room."""
    permission = "may leave it" if result.on else "cannot leave it"
    return block(
        line(
            "Navigation is ",
            ("mark", "on" if result.on else "off"),
            " in ",
            ("room", result.room),
            f": models {permission}.",
        )
    )


nav = group(
    "nav",
    section="Moving",
    default="show",
    doc="""Show or set whether models may leave this room.

    The setting applies to agents over MCP too, but not to people.
    """,
)


@nav.verb("show", needs=Right.ENTER, tool=False, examples=("/nav", "/nav show"))
async def show_navigation(caller: Caller) -> Navigation:
    """Show whether models may leave this room."""
    room = await caller.room()
    return Navigation(room.name, room.models_can_move)


@nav.verb("on", needs=Right.BUILD, tool=False, examples=("/nav on",))
async def allow_navigation(caller: Caller) -> Navigation:
    """Let models and agents leave this room."""
    return await _set_navigation(caller, "on")


@nav.verb("off", needs=Right.BUILD, tool=False, examples=("/nav off",))
async def forbid_navigation(caller: Caller) -> Navigation:
    """Keep models and agents from leaving this room."""
    return await _set_navigation(caller, "off")


async def _set_navigation(caller: Caller, state: Literal["on", "off"]) -> Navigation:
    room = await caller.room()
    if room.models_can_move != (state == "on"):
        await caller.change(
            lambda tx: things.set_metadata(tx, room.id, nav=state), f"turned navigation {state}"
        )
    return Navigation(room.name, state == "on")


async def move_to_room(caller: Caller, target: Room, direction: str = "") -> MoveResult:
    """Move the caller to a room that it may enter; an answering model stays where it is.

    Raises:
        Forbidden: if the caller may not enter; then nothing has changed.
        Conflict: if it is there already.
    """
    if caller.called_in_id is not None:
        here = await movement.check_target(caller, target)
        return MoveResult(target.name, here.name, stays=True)
    origin = await movement.move_caller(caller, target, direction)
    return MoveResult(target.name, origin.name)
