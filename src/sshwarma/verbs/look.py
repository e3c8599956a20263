"""The verb look: a room, an exit or a thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

from sshwarma.common.limits import MAX_SHOWN_PEOPLE
from sshwarma.common.shorten import count_rest
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.verbs.arguments import (
    Arg,
    CompletionRequest,
    Option,
    complete_exits,
    complete_things,
)
from sshwarma.verbs.examine import ContainedThing, ThingDetails, examine
from sshwarma.verbs.exit_lookup import find_exit, is_direction
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import (
    draw_columns,
    draw_hint,
    format_duration,
    join_names,
    view_for_reader,
)
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.exits import Exit
from sshwarma.world.ids import now_ms
from sshwarma.world.presence import PresentAgent
from sshwarma.world.reader import Reader
from sshwarma.world.rooms import Room
from sshwarma.world.world import World

LOOK_CACHE_SECONDS = 5
"""Time that a look is reused, unless an agent enters or leaves before."""


@dataclass(frozen=True, slots=True)
class RoomPerson:
    """An agent in a room, as /look shows it."""

    name: str
    kind: str  # person, model, external, bot
    status: str  # active, idle
    idle_seconds: int
    door: str
    client: str = ""  # the program that acts for it over MCP, by its own account


@dataclass(frozen=True, slots=True)
class RoomExit:
    """An exit of a room, and the name of the room that it leads to."""

    direction: str
    to: str


@dataclass(frozen=True, slots=True)
class RunningWork:
    """A call or a command that runs in a room; `number` stops it alone."""

    number: int
    work: str
    by: str


@dataclass(frozen=True, eq=False)
class RoomDetails:
    """A room as /look shows it; one shared value for all callers, equal by identity."""

    drawn_once: ClassVar[bool] = True

    name: str
    description: str
    vibe: str
    access: str
    nav: bool
    here: tuple[RoomPerson, ...]
    here_more: int
    models: tuple[str, ...]
    exits: tuple[RoomExit, ...]
    floor: tuple[ContainedThing, ...]
    floor_more: int
    running: tuple[RunningWork, ...] = ()


@view_for_reader(RoomDetails)
def draw_room_details(room: RoomDetails, reader: Reader) -> Block:
    """Draw a room: description, vibe, agents, models, exits and things on the floor."""
    lines: list[Line] = [
        line(("room", room.name), ("dim", f"  [{room.access}]" if room.access != "open" else ""))
    ]
    if room.description:
        lines += text_lines(room.description, indent=2)
    if room.vibe:
        lines.append(line("  Vibe: ", ("text", room.vibe), hang=4))
    lines.append(_draw_people(room.here, room.here_more, reader))
    if room.models:
        models = [f"@{name}" for name in room.models]
        lines.append(line("  Models: ", *join_names(models, "model"), hang=4))
    lines.append(_draw_exits(room.exits))
    if room.floor:
        lines.append(line("  On the floor:"))
        lines += draw_columns(
            (
                (("thing", f"· {thing.name}"), ("dim", f"[{thing.kind}]"), thing.description)
                for thing in room.floor
            ),
            indent=4,
        )
        if rest := count_rest(room.floor_more):
            hint = reader.hint(": {}", "inv show", inventory="room")
            lines.append(line("    ", ("dim", f"… {rest}{hint}")))
    for one in room.running:
        hint = reader.hint("  {}", "stop", name=str(one.number))
        lines.append(line("  Running: ", one.work, " for ", ("name", one.by), ("verb", hint)))
    return block(*lines)


def _draw_people(here: Sequence[RoomPerson], more: int, reader: Reader) -> Line:
    people = [f"{person.name}{_format_person_note(person)}" for person in here]
    rest = count_rest(more)
    crowd = [("dim", f" {rest}{reader.hint(': {}', 'who')}")] if rest else []
    return line("  Here: ", *(join_names(people, "name") or [("dim", "nobody")]), *crowd, hang=4)


def _draw_exits(exits: Sequence[RoomExit]) -> Line:
    ways = [f"{way.direction} → {way.to}" for way in exits]
    return line("  Exits: ", *(join_names(ways, "room") or [("dim", "none")]), hang=4)


@verb(
    "look",
    section="Looking",
    needs=Right.ENTER,
    aliases=("l",),
    examples=("/look", "/look north", "/look prompt:code-style", "/look @alice"),
    default=True,
)
async def look(
    caller: Caller, thing: ThingOrExit | None = None
) -> RoomDetails | NextRoom | ThingDetails:
    """Show this room.

    Shows the room's description and vibe, who is here, its exits, and what lies on the floor.
    With an exit, the room that it leads to. With a thing, what it is and what can be done with it.

    For models:
        Show this room, or an exit, tool, thing, @agent or room.

    Args:
        thing: an exit (north, n), a tool, another thing, an @agent or a room (default: this room).
    """
    if thing is None:
        return await read_room_details(caller)
    exits = await caller.visible_exits(await caller.room())
    if is_direction(thing) or any(way.direction == thing.lower() for way in exits):
        return await _read_next_room(caller, await find_exit(caller, thing))
    return await examine(caller, thing)


async def _complete_things_and_exits(request: CompletionRequest) -> list[Option]:
    """List the exits of the room, then what examine takes."""
    return [*await complete_exits(request), *await complete_things(request)]


ThingOrExit: TypeAlias = Annotated[str, Arg(complete=_complete_things_and_exits)]


@dataclass(frozen=True, slots=True)
class NextRoom:
    """The room behind an exit, as /look NORTH shows it.

    `may_enter`: whether the caller may.
    """

    direction: str
    name: str
    description: str
    vibe: str
    access: str
    here: tuple[RoomPerson, ...]
    here_more: int
    exits: tuple[RoomExit, ...]
    may_enter: bool


@view_for_reader(NextRoom)
def draw_next_room(room: NextRoom, reader: Reader) -> Block:
    """Draw the room behind an exit, and how to go there."""
    access = f"  [{room.access}]" if room.access != "open" else ""
    lines = [line(f"{room.direction} → ", ("room", room.name), ("dim", access))]
    lines += text_lines(room.description, indent=2) if room.description else []
    if room.vibe:
        lines.append(line("  Vibe: ", ("text", room.vibe), hang=4))
    lines.append(_draw_people(room.here, room.here_more, reader))
    if room.may_enter:
        lines.append(_draw_exits(room.exits))
        lines += draw_hint(reader, "  {} goes there.", "go", direction=room.direction)
    else:
        lines.append(line(("dim", "  You may not enter it.")))
    return block(*lines)


async def _read_next_room(caller: Caller, way: Exit) -> NextRoom:
    """Read the room behind an exit: what people in a room may know of the next one."""
    world = caller.world
    room = await world.room(way.to_id)
    here, here_more = _read_people(world, room)
    may_enter = Right.ENTER in caller.rights_in(room, now_ms())
    exits = await caller.visible_exits(room) if may_enter else ()
    return NextRoom(
        direction=way.direction,
        name=room.name,
        description=room.description,
        vibe=room.vibe,
        access=room.mode,
        here=here,
        here_more=here_more,
        exits=tuple(RoomExit(onward.direction, onward.to_name) for onward in exits),
        may_enter=may_enter,
    )


async def read_room_details(caller: Caller) -> RoomDetails:
    """Read the caller's room.

    All who see the same exits get the same value until a change.
    """
    world, turns = caller.world, services_of(caller).turns
    room = await caller.room()
    exits = await caller.visible_exits(room)
    running = tuple(
        RunningWork(one.number, one.work, world.agents.name_of(one.agent_id))
        for one in world.open_requests.list_work(room.id)
    )

    def see() -> RoomDetails:
        here, here_more = _read_people(world, room)
        return RoomDetails(
            name=room.name,
            description=room.description,
            vibe=room.vibe,
            access=room.mode,
            nav=room.models_can_move,
            here=here,
            here_more=here_more,
            models=tuple(agent.name for agent in turns.list_models_in(room)),
            exits=tuple(RoomExit(way.direction, way.to_name) for way in exits),
            floor=tuple(
                ContainedThing(thing.name, thing.kind, thing.description) for thing in room.bag
            ),
            floor_more=room.bag_size - len(room.bag),
            running=running,
        )

    version = (world.version, world.presence.room_version(room.id), running)
    hidden = frozenset(room.exits) - frozenset(exits)
    return world.cached(("look", room.id, hidden), version, LOOK_CACHE_SECONDS, see)


def _read_people(world: World, room: Room) -> tuple[tuple[RoomPerson, ...], int]:
    """Return the first MAX_SHOWN_PEOPLE agents in a room, and the number of others."""
    people = world.presence.in_room(room.id, MAX_SHOWN_PEOPLE)
    here = tuple(_make_room_person(world, present) for present in people)
    return here, world.presence.count(room.id) - len(people)


def _make_room_person(world: World, present: PresentAgent) -> RoomPerson:
    agent = world.agents.get(present.agent_id)
    return RoomPerson(
        agent.name if agent else "(gone)",
        present.kind(agent.kind) if agent else "person",
        present.status,
        present.idle_seconds,
        present.door,
        present.program,
    )


def _format_person_note(person: RoomPerson) -> str:
    kind = f"{person.kind} {person.client}".rstrip()
    notes = [] if person.kind == "person" else [kind]
    if person.status == "idle":
        notes.append(f"idle {format_duration(person.idle_seconds)}")
    return f" ({', '.join(notes)})" if notes else ""
