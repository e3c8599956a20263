"""The verb who: everyone who is connected, and the models that answer."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, format_duration, view
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class PersonListItem:
    """An agent in a room, as /who shows it."""

    name: str
    kind: str
    room: str
    door: str
    status: str
    idle_seconds: int
    client: str = ""


@dataclass(frozen=True, slots=True)
class PersonList:
    """The agents that are in a room now."""

    people: tuple[PersonListItem, ...]


@view(PersonList)
def draw_person_list(result: PersonList) -> Block:
    """Draw the agents that are in a room, and how long each has been idle."""
    return block(
        line(("heading", "Who is here:")),
        *draw_columns(
            (
                ("name", person.name),
                ("room", person.room or "every room"),
                f"{person.door} {person.client}".rstrip(),
                (
                    "dim",
                    f"{person.status} {format_duration(person.idle_seconds)}"
                    if person.status == "idle"
                    else f"active {format_duration(person.idle_seconds)} ago"
                    if person.idle_seconds >= 60
                    else person.status,
                ),
            )
            for person in result.people
        ),
    )


@verb("who", section="Looking", examples=("/who",), default=True)
async def who(caller: Caller) -> PersonList:
    """List who is connected.

    Everyone connected now, with room, connection (ssh, web or mcp) and idle time. A private room
    that you may not enter is left out. Models that answer are listed too, without a room: they
    answer in every room where they are called.

    For models:
        List who is connected, and where.
    """
    world = caller.world
    names = {room.id: room.name for room in await caller.known_rooms()}
    listed_people = (
        PersonListItem(
            name=world.agents.name_of(present.agent_id),
            kind=present.kind(agent.kind)
            if (agent := world.agents.get(present.agent_id))
            else "person",
            room=names.get(present.room_id, "(private)"),
            door=present.door,
            status=present.status,
            idle_seconds=present.idle_seconds,
            client=present.program,
        )
        for present in world.presence.everyone()
    )
    turns = services_of(caller).turns
    listed_models = (
        PersonListItem(
            agent.name, agent.kind, "(named rooms)" if agent.rooms else "", "model", "active", 0
        )
        for agent in world.agents
        if turns.can_answer(agent)
    )
    return PersonList(
        (
            *sorted(listed_people, key=lambda person: (person.name, person.room)),
            *sorted(listed_models, key=lambda model: model.name),
        )
    )
