"""The facts that /examine shows of a room and of an agent."""

from __future__ import annotations

from typing import Final

from sshwarma.common.limits import MAX_SHOWN_PEOPLE
from sshwarma.common.shorten import join_with_rest
from sshwarma.services import services_of
from sshwarma.verbs.views import format_count, format_duration
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.last_use import read_agent_last_seen
from sshwarma.world.presence import PresentAgent
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row

ACCESS_TEXTS: Final = {
    "open": "open: anyone may enter and talk",
    "invite": "invite: everyone sees it, members may enter",
    "private": "private: only members see it and may enter",
}

MAX_LISTED_NAMES: Final = 12
"""Rooms of an agent, or members of a room, that a fact names."""


async def read_room_facts(caller: Caller, room: Room) -> dict[str, str]:
    """Read what a person wants to know of a room; less if the caller may not enter."""
    world, now = caller.world, now_ms()
    rights = caller.rights_in(room, now)
    people = world.presence.in_room(room.id, MAX_SHOWN_PEOPLE)
    names = [_describe_present(caller, present) for present in people]
    count = world.presence.count(room.id)
    facts = {
        "Vibe": room.vibe,
        "Access": ACCESS_TEXTS[room.mode],
        "You": "may enter it" if Right.ENTER in rights else "may not enter it",
        "Here": join_with_rest(names, MAX_SHOWN_PEOPLE, total=count) or "nobody",
    }
    if Right.ENTER in rights:
        exits = await caller.visible_exits(room)
        load = await world.loadout(room.id, caller.agent.id, caller.acting_agent)
        last = await world.last_rows(room.id, 1)
        facts |= {
            "You": f"have {', '.join(right for right in Right if right in rights)}",
            "Exits": ", ".join(f"{way.direction} → {way.to_name}" for way in exits) or "none",
            "Members": _list_members(caller, room),
            "Equipped": f"{format_count(len(load.tools), 'tool')} for you",
            "Log": _describe_log(last[-1], now) if last else "empty",
        }
    return {name: text for name, text in facts.items() if text}


async def read_agent_facts(caller: Caller, agent: Agent) -> dict[str, str]:
    """Read what a person wants to know of an agent: what it is, where, what it owns."""
    world, now = caller.world, now_ms()
    rooms = {room.id: room for room in await caller.known_rooms()}
    places = [present for present in world.presence.everyone() if present.agent_id == agent.id]
    facts = {"Agent": places[0].kind(agent.kind) if places else agent.kind, "Role": agent.role}
    turns = services_of(caller).turns
    if turns.can_answer(agent):
        facts |= {"Model": turns.model_of(agent), "Call it with": f"@{agent.name}"}
    else:
        wheres = {
            f"{rooms[place.room_id].name if place.room_id in rooms else '(private)'},"
            f" {_describe_activity(place)}"
            for place in places
        }
        facts["Where"] = "; ".join(sorted(wheres)) or await _describe_absence(caller, agent, now)
    if agent.disabled:
        facts["Account"] = "disabled"
    here = rooms.get(caller.room_id)
    if here is not None:
        member = here.members.get(agent.id)
        facts[f"In {here.name}"] = (
            here.describe_sanction(agent, now) or (member.role if member else "") or ""
        )
    owned = [
        room.name
        for room in rooms.values()
        if (member := room.members.get(agent.id)) and member.role == "owner"
    ]
    facts["Owns"] = join_with_rest(owned, MAX_LISTED_NAMES)
    return {name: text for name, text in facts.items() if text}


async def _describe_absence(caller: Caller, agent: Agent, now: int) -> str:
    world = caller.world
    recorded = await world.store.read(lambda conn: read_agent_last_seen(conn, agent.id))
    seen_at = world.last_use.seen_at(agent.id, recorded)
    if seen_at is None:
        return "not connected"
    return f"not connected, seen {format_duration((now - seen_at) / 1000)} ago"


def _describe_log(last: Row, now: int) -> str:
    age = format_duration((now - last.created_at) / 1000)
    return f"{format_count(last.seq, 'row')}, the last {age} ago"


def _describe_present(caller: Caller, present: PresentAgent) -> str:
    name = caller.world.agents.name_of(present.agent_id)
    if present.status == "idle":
        return f"{name} (idle {format_duration(present.idle_seconds)})"
    return name


def _describe_activity(present: PresentAgent) -> str:
    door = f"{present.door} {present.program}".rstrip()
    if present.status == "idle":
        return f"idle {format_duration(present.idle_seconds)}, by {door}"
    return f"active, by {door}"


def _list_members(caller: Caller, room: Room) -> str:
    """List the members with a role, owners first."""
    order = ("owner", "builder", "member")
    named = sorted(
        (order.index(member.role), caller.world.agents.name_of(member.agent_id), member.role)
        for member in room.members.values()
        if member.role in order
    )
    return join_with_rest([f"{name} ({role})" for _, name, role in named], MAX_LISTED_NAMES)
