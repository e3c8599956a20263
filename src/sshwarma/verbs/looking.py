"""Looking around: the room, the things in it, other rooms, who is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Connection, func, select

from sshwarma.models.turn import Turns
from sshwarma.terminal.text import Block, Line, block, line, paragraphs
from sshwarma.verbs.arguments import ThingName
from sshwarma.verbs.reference import find_thing
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import ago, columns, listed, view
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.presence import Present
from sshwarma.world.rooms import BAG_SHOWN
from sshwarma.world.schema import rows, tool_calls
from sshwarma.world.things import Thing
from sshwarma.world.world import World

CALLS_SHOWN = 5
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


@dataclass(frozen=True, slots=True)
class ThingHere:
    name: str
    kind: str
    description: str


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
class Call:
    """One recorded call of a tool."""

    seconds_ago: int
    who: str
    arguments: str
    ok: bool
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Examined:
    """Everything one may know of a thing."""

    name: str
    kind: str
    description: str
    location: str
    location_kind: str
    status: str
    content: str | None = None
    uri: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    parameters: tuple[tuple[str, str, str], ...] = ()  # name, type, description
    calls: tuple[Call, ...] = ()
    calls_total: int = 0
    calls_failed: int = 0
    calls_average: float | None = None
    contains: tuple[ThingHere, ...] = ()


@view(Examined)
def _(seen: Examined) -> Block:
    title = [("thing", seen.name)] + ([("", f" - {seen.description}")] if seen.description else [])
    lines = [
        line(*title),
        line(f"Kind: {seen.kind}"),
        line(f"Location: {seen.location} ({seen.location_kind})"),
        line(f"Status: {seen.status}"),
        *(line(f"{name}: {value}", hang=2) for name, value in seen.facts.items()),
    ]
    if seen.uri is not None:
        lines.append(line("URI: ", ("link", seen.uri)))
    if seen.parameters:
        lines += [line(), line("Parameters:")]
        lines += columns(
            (("tool", name), ("dim", kind), text) for name, kind, text in seen.parameters
        )
    if seen.content is not None:
        lines += [line(), *paragraphs(seen.content, indent=2)]
    if seen.contains:
        lines += [line(), line("Contains:")]
        lines += columns(
            (("thing", f"· {thing.name}"), ("dim", f"[{thing.kind}]"), thing.description)
            for thing in seen.contains
        )
    if seen.kind == "tool":
        lines += _calls(seen)
    return block(*lines)


def _calls(seen: Examined) -> list[Line]:
    if not seen.calls_total:
        return [line(), line(("dim", "No calls yet."))]
    recent = (
        (
            f"{ago(call.seconds_ago)} ago",
            ("name", call.who),
            call.arguments,
            ("ok", "✓") if call.ok else ("error", "✗"),
            f"{call.seconds:.1f}s" if call.seconds is not None else "",
        )
        for call in seen.calls
    )
    average = f", avg {seen.calls_average:.1f}s" if seen.calls_average is not None else ""
    return [
        line(),
        line("Recent calls:"),
        *columns(recent),
        line(),
        line(f"Stats: {seen.calls_total} calls, {seen.calls_failed} errors{average}"),
    ]


@verb(
    "examine",
    group="Looking",
    needs=Right.ENTER,
    aliases=("x",),
    examples=("/examine sshwarma:look", "/examine prompt:code-style", "/examine @alice"),
)
async def examine(caller: Caller, thing: ThingName) -> Examined:
    """Thing details

    Works for every kind: tools show their parameters, recent calls and statistics; data shows
    its text; references their address; rooms, agents and namespaces what they contain.

    thing: a qualified name (holler:sample), a thing in this room's bag or yours, home:NAME,
        @agent, a room, or a namespace.
    """
    found = await find_thing(caller, thing)
    return await caller.world.store.read(lambda conn: _examined(conn, caller, found))


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
    answering = world.part(Turns)
    if answering is not None:
        yield from (agent.name for agent in world.agents if answering.answers(agent))


def _person(world: World, present: Present) -> PersonHere:
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


def _examined(conn: Connection, caller: Caller, thing: Thing) -> Examined:
    parent = things.get(conn, thing.parent_id) if thing.parent_id else None
    facts: dict[str, str] = {}
    if thing.kind == "agent":
        agent = caller.world.agents.get(thing.id)
        if agent is not None:
            facts = {"Agent": agent.kind, "Role": agent.role}
    for key, label in (("keywords", "Keywords"), ("required_states", "Required states")):
        if thing.metadata.get(key):
            facts[label] = ", ".join(thing.metadata[key])
    if thing.created_by:
        facts["Made by"] = caller.world.agents.name_of(thing.created_by)
    contains: tuple[ThingHere, ...] = ()
    if thing.kind != "tool" and not (thing.kind == "agent" and thing.id != caller.agent.id):
        contains = tuple(
            ThingHere(child.name, child.kind, child.description)
            for child in things.children(conn, thing.id, limit=BAG_SHOWN)
        )
    seen = Examined(
        name=thing.label,
        kind=thing.kind,
        description=thing.description,
        location=parent.name if parent else "nowhere",
        location_kind=parent.kind if parent else "root",
        status=_status(thing),
        content=thing.content,
        uri=thing.uri,
        facts=facts,
        contains=contains,
    )
    return _with_calls(conn, caller, thing, seen) if thing.kind == "tool" else seen


def _status(thing: Thing) -> str:
    if not thing.enabled:
        return "disabled"
    return "available" if thing.available else "unavailable"


def _with_calls(conn: Connection, caller: Caller, tool: Thing, seen: Examined) -> Examined:
    mine = tool_calls.c.tool_id == tool.qualified_name
    query = (
        select(tool_calls, rows.c.author_id, rows.c.created_at)
        .outerjoin(rows, rows.c.id == tool_calls.c.id)
        .where(mine)
        .order_by(tool_calls.c.started_at.desc())
        .limit(CALLS_SHOWN)
    )
    calls = tuple(
        Call(
            int((now_ms() - (row["created_at"] or now_ms())) / 1000),
            caller.world.agents.name_of(row["author_id"]),
            row["args"] if len(row["args"]) <= 60 else row["args"][:59] + "…",
            row["status"] == "success",
            _seconds(row["started_at"], row["finished_at"]),
        )
        for row in conn.execute(query).mappings()
    )
    length = func.julianday(tool_calls.c.finished_at) - func.julianday(tool_calls.c.started_at)
    total, failed, average = conn.execute(
        select(
            func.count(),
            func.count().filter(tool_calls.c.status == "error"),
            func.avg(length) * 86_400,
        ).where(mine)
    ).one()
    return replace(
        seen,
        parameters=tuple(_parameters(tool.metadata.get("input_schema") or {})),
        calls=calls,
        calls_total=total,
        calls_failed=failed,
        calls_average=average,
    )


def _parameters(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    required = schema.get("required", ())
    for name, described in schema.get("properties", {}).items():
        options = described.get("anyOf", [described])
        kinds = [
            "|".join(map(str, option["enum"])) if "enum" in option else option.get("type", "any")
            for option in options
            if option.get("type") != "null"
        ]
        optional = "" if name in required else "?"
        yield f"{name}{optional}", "|".join(kinds), described.get("description", "")


def _seconds(started: str, finished: str | None) -> float | None:
    if finished is None:
        return None
    return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
