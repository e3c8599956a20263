"""Looking around: the room, the things in it, other rooms, who is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sshwarma.models.turn_runner import TurnRunner
from sshwarma.terminal.text import Block, Line, block, line, paragraphs
from sshwarma.verbs.arguments import ThingName
from sshwarma.verbs.examine import Examined, ThingHere, examine
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import ago, columns, listed, view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.presence import PresentAgent
from sshwarma.world.world import World

PEOPLE_SHOWN = 50
"""People a look names; the rest are counted, and /who names them all. A look at a crowd costs no
more than one at fifty."""

STATUS_SECONDS = 5
"""A look that was made this recently is given again if nobody came or went meanwhile."""


@dataclass(frozen=True, slots=True)
class PersonHere:
    name: str
    kind: str  # person, model, external, bot
    status: str  # active, idle
    idle_seconds: int
    door: str


@dataclass(frozen=True, slots=True)
class ExitHere:
    direction: str
    to: str


@dataclass(frozen=True, eq=False)
class RoomSeen:
    """A room as one sees it on entering. One value for all who look, so compared by identity."""

    drawn_once: ClassVar[bool] = True

    name: str
    description: str
    vibe: str
    access: str
    nav: bool
    here: tuple[PersonHere, ...]
    here_more: int
    models: tuple[str, ...]
    exits: tuple[ExitHere, ...]
    floor: tuple[ThingHere, ...]
    floor_more: int


@view(RoomSeen)
def _(room: RoomSeen) -> Block:
    lines: list[Line] = [
        line(("room", room.name), ("dim", f"  [{room.access}]" if room.access != "open" else ""))
    ]
    if room.description:
        lines += paragraphs(room.description, indent=2)
    if room.vibe:
        lines.append(line("  Vibe: ", ("text", room.vibe), hang=4))
    here = [f"{who.name}{_note(who)}" for who in room.here]
    crowd = [("dim", f" and {room.here_more} more: /who")] if room.here_more else []
    lines.append(line("  Here: ", *(listed(here, "name") or [("dim", "nobody")]), *crowd, hang=4))
    if room.models:
        models = [f"@{name}" for name in room.models]
        lines.append(line("  Models: ", *listed(models, "model"), hang=4))
    ways = [f"{way.direction} → {way.to}" for way in room.exits]
    lines.append(line("  Exits: ", *(listed(ways, "room") or [("dim", "none")]), hang=4))
    if room.floor:
        lines.append(line("  On the floor:"))
        lines += columns(
            (
                (("thing", f"· {thing.name}"), ("dim", f"[{thing.kind}]"), thing.description)
                for thing in room.floor
            ),
            indent=4,
        )
        if room.floor_more:
            lines.append(line("    ", ("dim", f"… and {room.floor_more} more: /inv room")))
    return block(*lines)


@verb(
    "look",
    group="Looking",
    needs=Right.ENTER,
    aliases=("l",),
    examples=("/look", "/look prompt:code-style", "/look @alice"),
    default=True,
)
async def look(caller: Caller, thing: ThingName | None = None) -> RoomSeen | Examined:
    """Describe current room

    Shows the room's description and vibe, who is here, its exits, and what lies on the floor.
    With a thing, the same as /examine.

    thing: anything /examine knows; the room itself if left out.
    """
    if thing is not None:
        return await examine(caller, thing)
    return await look_around(caller)


async def look_around(caller: Caller) -> RoomSeen:
    """What the caller's room looks like now: the same value for everybody who looks while nothing
    changes."""
    world = caller.world
    room = await caller.room()

    def see() -> RoomSeen:
        here = world.presence.in_room(room.id, PEOPLE_SHOWN)
        return RoomSeen(
            name=room.name,
            description=room.description,
            vibe=room.vibe,
            access=room.mode,
            nav=room.nav,
            here=tuple(_person(world, present) for present in here),
            here_more=world.presence.count(room.id) - len(here),
            models=tuple(sorted(_models(world))),
            exits=tuple(ExitHere(way.direction, way.to_name) for way in room.exits),
            floor=tuple(ThingHere(thing.name, thing.kind, thing.description) for thing in room.bag),
            floor_more=room.bag_size - len(room.bag),
        )

    version = (world.version, world.presence.version(room.id))
    return world.recent(("look", room.id), version, STATUS_SECONDS, see)


@dataclass(frozen=True, slots=True)
class RoomListed:
    name: str
    people: int
    access: str
    description: str
    here: bool


@dataclass(frozen=True, slots=True)
class RoomList:
    rooms: tuple[RoomListed, ...]


@view(RoomList)
def _(result: RoomList) -> Block:
    return block(
        line(("heading", "Rooms:")),
        *columns(
            (
                ("mark", "→" if room.here else " "),
                ("room", room.name),
                f"{room.people} here",
                ("dim", "" if room.access == "open" else f"[{room.access}]"),
                room.description,
            )
            for room in result.rooms
        ),
    )


@verb("rooms", group="Looking", examples=("/rooms",), default=True)
async def rooms(caller: Caller) -> RoomList:
    """List rooms

    By name, with how many people are in each. Private rooms show only to their members.
    """
    now = now_ms()
    return RoomList(
        tuple(
            RoomListed(
                room.name,
                caller.world.presence.count(room.id),
                room.mode,
                room.description or room.vibe,
                room.id == caller.room_id,
            )
            for room in await caller.world.rooms()
            if room.listed_for(caller.agent, now)
        )
    )


@dataclass(frozen=True, slots=True)
class PersonListed:
    name: str
    kind: str
    room: str
    door: str
    status: str
    idle_seconds: int


@dataclass(frozen=True, slots=True)
class WhoList:
    people: tuple[PersonListed, ...]


@view(WhoList)
def _(result: WhoList) -> Block:
    return block(
        line(("heading", "Who is here:")),
        *columns(
            (
                ("name", who.name),
                ("room", who.room),
                who.door,
                (
                    "dim",
                    f"{who.status} {ago(who.idle_seconds)}"
                    if who.idle_seconds >= 60
                    else who.status,
                ),
            )
            for who in result.people
        ),
    )


@verb("who", group="Looking", examples=("/who",), default=True)
async def who(caller: Caller) -> WhoList:
    """List participants

    Everyone connected now, with room, door (ssh, mcp, web, model) and idle time. Who is in a
    private room that you may not enter is shown without the room.
    """
    world, now = caller.world, now_ms()
    names = {
        room.id: room.name if room.listed_for(caller.agent, now) else "(private)"
        for room in await world.rooms()
    }
    listed_people = (
        PersonListed(
            world.agents.name_of(present.agent_id),
            agent.kind if (agent := world.agents.get(present.agent_id)) else "person",
            names.get(present.room_id, "(private)"),
            present.door,
            present.status,
            present.idle_seconds,
        )
        for present in world.presence.everyone()
    )
    return WhoList(tuple(sorted(listed_people, key=lambda person: (person.name, person.room))))


def _models(world: World) -> Iterator[str]:
    """Those who answer when they are called here."""
    answering = world.part(TurnRunner)
    if answering is not None:
        yield from (agent.name for agent in world.agents if answering.answers(agent))


def _person(world: World, present: PresentAgent) -> PersonHere:
    agent = world.agents.get(present.agent_id)
    return PersonHere(
        agent.name if agent else "(gone)",
        agent.kind if agent else "person",
        present.status,
        present.idle_seconds,
        present.door,
    )


def _note(who: PersonHere) -> str:
    notes = [] if who.kind == "person" else [who.kind]
    if who.status == "idle":
        notes.append(f"idle {ago(who.idle_seconds)}")
    return f" ({', '.join(notes)})" if notes else ""
