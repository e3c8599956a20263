"""What a call is checked against before it runs, and the words of its refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CALL_DEPTH, MAX_NESTED_CALLS
from sshwarma.terminal.escape import escape_lines
from sshwarma.tools.arguments import check_arguments
from sshwarma.tools.names import find_spelled
from sshwarma.world import things
from sshwarma.world.access import VISITOR_RIGHTS, Right, missing_role_error
from sshwarma.world.call_stack import CallStack
from sshwarma.world.caller import Caller
from sshwarma.world.equip_role import find_missing_role
from sshwarma.world.errors import Forbidden, Invalid, NotFound, Unavailable, WorldError
from sshwarma.world.ids import now_ms
from sshwarma.world.loadout import AncestorCache, LoadoutItem, OffSwitch, find_off_switch
from sshwarma.world.missing_rights import explain_granters
from sshwarma.world.reader import Hint, NextCall, Reader, next_call
from sshwarma.world.rooms import Room
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call before it is recorded: the tool to run, or why it is refused."""

    tool: str
    arguments: dict[str, Any]
    outcome: Thing | WorldError
    is_private: bool = False  # the log shows neither its arguments nor its result
    is_failure: bool = False  # a refusal by the tool as it is now, which is recorded


def find_unequipped_tool(
    conn: Connection, name: str, is_open: Callable[[Thing], bool]
) -> Thing | None:
    """Return an unequipped tool by any of its names, if the caller may know of it."""
    tool = next((thing for thing in find_spelled(conn, name) if thing.kind == "tool"), None)
    if tool is None:
        return None
    return tool if all(map(is_open, things.read_ancestors(conn, tool.id))) else None


def keep_fitting(tool: Thing, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for the record of a call that fails before it runs.

    None of them, if they do not fit the tool as it was: they may be of any size.
    """
    try:
        return check_arguments(tool, arguments)
    except Invalid:
        return {}


async def check_role_of_asker(caller: Caller, item: LoadoutItem) -> None:
    """Check the role of whom a model answers, or of a script, for tools of its own.

    Raises:
        Forbidden: if that person may not equip the tool, and the room has not; or may not enter
            the room of the tool.
    """
    person = caller.asking_agent
    if person is None and caller.is_of_script:
        person = caller.acting_agent
    if item.source != "agent" or person is None:
        return
    tool = item.thing
    chain = await caller.world.store.read(lambda conn: things.read_ancestors(conn, tool.id))
    rooms, now = await caller.world.rooms_by_id(), now_ms()
    for link in chain:
        room = rooms.get(link.id)
        if room is not None and Right.ENTER not in room.rights_of(person, now=now):
            label = caller.reader.name_tool(tool.label)
            raise Forbidden(f"{label} is in a room that {person.name} may not enter.")
    role = find_missing_role(person, tool, chain)
    if role is not None:
        label = caller.reader.name_tool(tool.label)
        purpose = f"to call {label}, unless the room has equipped it"
        raise missing_role_error(person, role, purpose, caller.world.agents)


async def check_asker(caller: Caller) -> None:
    """Refuse a call of a model if who asked the model has lost the room.

    Raises:
        Forbidden: if that person is gone, disabled, banned or muted, or may not enter.
    """
    if caller.person_id in (None, caller.agent.id):
        return
    room, person = await caller.room(), caller.asking_agent
    if (
        person is None
        or person.disabled
        or not room.rights_of(person, now=now_ms()) >= VISITOR_RIGHTS
    ):
        name = "Who asked" if person is None else f"{person.name}, who asked,"
        raise Forbidden(f"{name} may not talk in {room.name} any more, so nothing was run.")


async def check_after_wait(caller: Caller) -> None:
    """Refuse a call that has waited, if its caller may not make it any more.

    Raises:
        Forbidden: if the caller, or who asked it, may not be or talk in the room, or lacks the role
            that the tool needs.
        NotFound: if the tool is not equipped any more, or cannot be used.
    """
    await caller.as_present()
    await check_asker(caller)
    stack = caller.call_stack
    if stack is None or (stack.is_trial and not stack.is_nested):  # a trial needs no equipping
        return
    load = await caller.loadout()
    item = next((one for one in load.tools if one.thing.label == stack.names[-1]), None)
    if item is None or item.obstacle:
        label = caller.reader.name_tool(stack.names[-1])
        raise NotFound(f"{label} cannot be used here any more, so it was not run.")
    await check_role_of_asker(caller, item)


def count_arguments(caller: Caller, arguments: dict[str, Any]) -> None:
    """Count the arguments of a call, which its row keeps.

    Raises:
        RateLimited: if the agent has stored too much text in the last hour.
    """
    caller.charge_text_volume(
        len(json.dumps(arguments, ensure_ascii=False).encode(errors="replace"))
    )


def find_switch(conn: Connection, tool: Thing, room_id: str, agent_id: str) -> OffSwitch | None:
    """Return what switches an unequipped tool off in a room or for an agent.

    Raises:
        Unavailable: if the toolset that has brought it is disabled.
    """
    bundle = AncestorCache(conn).find_disabled_bundle(tool)
    if bundle is not None:
        raise Unavailable(
            f"{tool.label} is unavailable: {bundle.label} is disabled.",
            hint="An admin can enable it.",
        )
    return find_off_switch(conn, tool, room_id, agent_id)


def explain_off_switch(switch: OffSwitch, reader: Reader, agent: str = "you") -> str:
    """Explain what is switched off and where: "git is switched off in this room".

    `agent` is whose switch it is, if it is not the room's.
    """
    place = describe_switch_place(switch.source, agent)
    return f"{reader.name_tool(switch.thing.label)} is switched off {place}"


def describe_switch_place(source: str, agent: str = "you") -> str:
    """Return "in this room" or "on you" for the row that switches something off."""
    return "in this room" if source == "room" else f"on {agent}"


def suggest_switch_on(switch: OffSwitch, tools: str = "") -> NextCall:
    """Suggest the call that switches a tool or a namespace of the caller on again.

    `tools`: the tools that are switched off there, if they are several.
    """
    context = "room" if switch.source == "room" else "me"
    if switch.thing.kind == "tool":
        return suggest_equip_again(context, tools or switch.thing.label)
    return suggest_load_again(context, switch.thing.label)


def ask_to_switch_on(caller: Caller, room: Room, switch: OffSwitch) -> str:
    """Return whom to ask if only others may take a switch away; "" if the caller may."""
    if switch.source != "room" or Right.BUILD in caller.rights_in(room, now_ms()):
        return ""
    return explain_granters(caller.world.agents, Right.BUILD, room).hint_for(caller.reader)


def suggest_load_again(context: str, namespace: str) -> NextCall:
    """Suggest the calls that switch a namespace on, and that leave it unloaded then."""
    way_back = next_call(
        "After that, {} leaves it neither loaded nor switched off.",
        "unload",
        room=namespace,
        context=context,
    )
    call = next_call("{} switches it on.", "load", room=namespace, context=context)
    return replace(call, also=way_back)


def suggest_equip_again(context: str, patterns: str) -> NextCall:
    """Suggest calls that switch tools on and then leave them to their namespace."""
    them = "it" if not set(patterns) & set(",* ") else "them"
    way_back = next_call(
        f"After that, {{}} leaves {them} neither equipped nor switched off.",
        "unequip",
        context=context,
        patterns=patterns,
    )
    call = next_call(f"{{}} switches {them} on.", "equip", context=context, patterns=patterns)
    return replace(call, also=way_back)


def read_error_text(caller: Caller, refused: WorldError) -> str:
    """Return a refusal's text for its reader: people can type what hints name.

    Terminals show control characters themselves; other readers get them shown here.
    """
    reader = caller.reader
    text = refused.text_for(reader)
    return text if reader.is_person else escape_lines(text)


def suggest_equipping(conn: Connection, caller: Caller, tool: Thing) -> tuple[Hint, ...]:
    """Suggest how to equip a tool, by calls that its caller may make."""
    label = tool.label
    person = caller.asking_agent or caller.acting_agent
    role = find_missing_role(person, tool, things.read_ancestors(conn, tool.id))
    if role is not None:
        sentence = "Who may build here can equip the room: {}."
        return (
            f"Equipping it needs the role {role}.",
            next_call(sentence, "equip", context="room", patterns=label),
        )
    return (
        next_call("{} loads its namespace.", "load", room=label.partition(":")[0]),
        next_call("{} equips it alone.", "equip", context="me", patterns=label),
    )


def count_nested_call(within: CallStack | None, tool: str) -> None:
    """Count a nested call.

    Raises:
        Unavailable: if it is nested too deep, or over the limit of nested calls.
    """
    if within is None:
        return
    if len(within.names) >= MAX_CALL_DEPTH:
        path = " → ".join((*within.names, tool))
        raise Unavailable(f"{path}: calls nest at most {MAX_CALL_DEPTH} deep.")
    if within.counter.calls >= MAX_NESTED_CALLS:
        raise Unavailable(f"One call can make at most {MAX_NESTED_CALLS} nested calls.")
    within.counter.calls += 1
