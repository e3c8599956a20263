"""Why tools can be called or not, as the verbs that change equipment report it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from sshwarma.common.shorten import join_with_rest
from sshwarma.tools.call_checks import ask_to_switch_on, explain_off_switch, suggest_switch_on
from sshwarma.verbs.resolve import describe_context
from sshwarma.world import equipment, loadout, rooms, things
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.equip_role import find_missing_role
from sshwarma.world.ids import now_ms
from sshwarma.world.loadout import LoadoutItem, OffSwitch
from sshwarma.world.reader import NextCall, Reader
from sshwarma.world.rooms import Room
from sshwarma.world.things import Thing

CALLING_KINDS = frozenset(("room", "agent"))
"""Kinds of the contexts in which tools are called."""

MAX_NAMED_TOOLS = 8
"""Tools that a reason names; the rest are counted."""


@dataclass(frozen=True, slots=True)
class ToolReasons:
    """Reasons why tools of a change can or cannot be called.

    Attributes:
        usable: the tools that can be called.
        text: why the others cannot be called; "" if all can.
        has_off_switch: whether a row switches one of them off.
        lacks_role: whether the person whom a model answers lacks the role for one of them.
        next: the call that takes the first switch out of the way.
        ask: whom to ask to do that, if the caller may not.
    """

    usable: tuple[Thing, ...]
    text: str = ""
    has_off_switch: bool = False
    lacks_role: bool = False
    next: NextCall | None = None
    ask: str = ""


def reporting_contexts(caller: Caller, context: Thing) -> tuple[str, str]:
    """Return the room and the agent for which a change of a context is reported."""
    return caller.room_id, context.id if context.kind == "agent" else caller.agent.id


def explain_blocked_tools(
    conn: Connection, caller: Caller, room: Room, context: Thing, changed: Sequence[Thing]
) -> ToolReasons:
    """Return which of these tools and namespaces can be called, and why not others.

    None for a context in which nobody calls tools: the defaults of new rooms.
    """
    if context.kind not in CALLING_KINDS:
        return ToolReasons(())
    room_id, agent_id = reporting_contexts(caller, context)
    states = caller.world.detected_states(caller.room_id)
    load = loadout.compute_loadout(conn, room_id, agent_id, states)
    items = {item.thing.id: item for item in load.tools}
    usable: list[Thing] = []
    reasons: dict[str, None] = {}
    switches: list[OffSwitch] = []
    person, user = caller.asking_agent, caller.world.agents.get(agent_id)
    missing_roles: dict[str, None] = {}
    chains: dict[str | None, list[Thing]] = {}  # the same for all tools of a namespace
    for tool in read_tools_of(conn, changed):
        item = items.get(tool.id)
        switch = None if item else loadout.find_off_switch(conn, tool, room_id, agent_id)
        by_agent = item is not None and item.source == "agent"
        role = None
        closed = ""
        if by_agent:
            if tool.parent_id not in chains:
                chains[tool.parent_id] = things.read_ancestors(conn, tool.id)
            closed = _find_closed_room(conn, chains[tool.parent_id], user)
            role = person and find_missing_role(person, tool, chains[tool.parent_id])
        if user is not None and closed:
            label = caller.reader.name_tool(tool.label)
            reasons[f"{label} is in {closed}, which {user.name} may not enter"] = None
        elif person is not None and role is not None:
            reason = f"{person.name} needs the role {role} for them, unless the room equips them"
            missing_roles[reason] = None
        elif item is not None and not item.obstacle:
            usable.append(tool)
        elif item is not None:
            reasons[f"{caller.reader.name_tool(tool.label)} cannot be used: {item.obstacle}"] = None
        elif switch is not None:
            whose = "you" if agent_id == caller.agent.id else "the agent"
            reasons[explain_off_switch(switch, caller.reader, whose)] = None
            switches.append(switch)
    text = join_with_rest([*reasons, *missing_roles], MAX_NAMED_TOOLS, separator="; ")
    name = caller.world.agents.name_of(agent_id) if agent_id != caller.agent.id else ""
    ask = ask_to_switch_on(caller, room, switches[0]) if switches else ""
    return ToolReasons(
        tuple(usable),
        text,
        bool(switches),
        bool(missing_roles),
        None if ask else _suggest_switch_on(switches, name),
        ask,
    )


def _find_closed_room(conn: Connection, chain: Sequence[Thing], user: Agent | None) -> str:
    """Return the name of the room of a tool if an agent may not enter it, else ""."""
    now = now_ms()
    for link in chain:
        if link.kind == "room" and link.deleted_at is None and user is not None:
            room = rooms.read_room(conn, link.id)
            if Right.ENTER not in room.rights_of(user, now=now):
                return room.name
    return ""


def read_tools_of(conn: Connection, changed: Sequence[Thing]) -> list[Thing]:
    """Return these tools, and those of the namespaces with what loads with them."""
    tools: dict[str, Thing] = {}
    for thing in changed:
        if thing.kind == "tool":
            tools.setdefault(thing.id, thing)
        elif thing.kind in loadout.NAMESPACE_KINDS:
            for tool in loadout.read_tools_below(conn, thing):
                tools.setdefault(tool.id, tool)
    return list(tools.values())


def _suggest_switch_on(switches: Sequence[OffSwitch], other_agent: str) -> NextCall | None:
    """Suggest the call that takes the first switch away, with others of its kind."""
    first = next(iter(switches), None)
    if first is None or (other_agent and first.source == "agent"):
        return None
    labels = [
        switch.thing.label
        for switch in switches
        if switch.thing.kind == "tool" and switch.source == first.source
    ]
    return suggest_switch_on(first, ",".join(labels[:MAX_NAMED_TOOLS]))


@dataclass(frozen=True, slots=True)
class ToolsStillOn:
    """Tools that stay on after they were taken off a context.

    Attributes:
        text: the tools and the reasons; empty if no tool is still on.
        can_switch_off: whether an off of that context would switch them off: a room goes before an
            agent.
    """

    text: str = ""
    can_switch_off: bool = False


async def describe_tools_on(
    caller: Caller, context: Thing, changed: Sequence[Thing]
) -> ToolsStillOn:
    """Describe which of these tools and of namespaces' tools are still on, and why.

    None are in a context in which nobody calls tools: the defaults of new rooms.
    """
    if context.kind not in CALLING_KINDS:
        return ToolsStillOn()
    room_id, agent_id = reporting_contexts(caller, context)
    load = await caller.world.loadout(room_id, agent_id)

    def read(conn: Connection) -> tuple[set[str], set[str]]:
        in_room_id = equipment.agent_in_room_id(agent_id, room_id)
        rows = equipment.read_equipped_rows(conn, [room_id, in_room_id, agent_id])
        single = {row.thing.id for row in rows if row.equipped}
        return single, {tool.id for tool in read_tools_of(conn, changed)}

    single, meant = await caller.world.store.read(read)
    place = describe_context(
        "me" if agent_id == caller.agent.id else f"@{caller.world.agents.name_of(agent_id)}"
    )
    on = [item for item in load.usable_tools if item.thing.id in meant]
    by_room = context.kind == "agent" and any(item.source == "room" for item in on)
    text = _describe_reasons(on, single, place, caller.reader)
    return ToolsStillOn(text, bool(on) and not by_room)


def _describe_reasons(
    on: Sequence[LoadoutItem], single: Collection[str], on_agent: str, reader: Reader
) -> str:
    sources = {"room": "in this room", "agent": on_agent}
    reasons: dict[str, list[LoadoutItem]] = {}
    for source, place in sources.items():
        items = [item for item in on if item.source == source]
        reasons[f"equipped one by one {place}"] = [i for i in items if i.thing.id in single]
        reasons[f"loaded {place}"] = [i for i in items if i.thing.id not in single]
    reasons["loaded everywhere"] = [item for item in on if item.source == "always"]
    return " ".join(
        f"Still on, because {'it is' if len(items) == 1 else 'they are'} {reason}:"
        f" {_join_tool_names(items, reader)}."
        for reason, items in reasons.items()
        if items
    )


def _join_tool_names(items: Sequence[LoadoutItem], reader: Reader) -> str:
    return join_with_rest([reader.name_tool(item.thing.label) for item in items], MAX_NAMED_TOOLS)
