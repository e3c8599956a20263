"""Completion of things in bags, of people to moderate, of arguments of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_BAG_OPTIONS
from sshwarma.tools.arguments import parse_arguments
from sshwarma.tools.names import NameTable
from sshwarma.tools.parameters import describe_parameters
from sshwarma.verbs.arguments import (
    Arg,
    Completer,
    CompletionRequest,
    Option,
    agent_options,
)
from sshwarma.verbs.resolve import find_bag_id, list_bag_ids
from sshwarma.world import bag_reads, things
from sshwarma.world.access import Member
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.things import Thing

_ARGUMENT_NAME: Final = re.compile(r"[\w.-]+")
"""A name of an argument that can be typed as NAME=VALUE."""


async def list_bag_options(
    caller: Caller, bag: str, *kinds: str, prefix: str = "", note: str = ""
) -> list[Option]:
    """List the things of a bag: `room`, `me` or `home`.

    `prefix` precedes their names.
    """
    bag_id = find_bag_id(caller, bag)
    kinds = kinds or ("data", "reference", "tool")
    read = partial(_read_bag, bag_id=bag_id, kinds=kinds)
    bag_things = await caller.world.memoized(("bag of kinds", bag_id, kinds), read)
    return [(f"{prefix}{thing.name}", note or thing.kind) for thing in bag_things]


def _read_bag(conn: Connection, bag_id: str, kinds: tuple[str, ...]) -> list[Thing]:
    return things.read_children(conn, bag_id, *kinds, limit=MAX_BAG_OPTIONS)


async def complete_bag(request: CompletionRequest) -> list[Option]:
    """List what the bag in `request.given` contains."""
    bag = request.given[0].lower() if request.given else ""
    return await list_bag_options(request.caller, bag) if bag in ("room", "me") else []


async def complete_texts(request: CompletionRequest) -> list[Option]:
    """List the data things by the names with which /put changes them."""
    caller = request.caller
    return [
        *await list_bag_options(caller, "room", "data", note="here"),
        *await list_bag_options(caller, "me", "data", prefix="me:", note="yours"),
        *await list_bag_options(caller, "home", "data", prefix="home:", note="in home"),
    ]


async def complete_references(request: CompletionRequest) -> list[Option]:
    """List the references of the room."""
    return await list_bag_options(request.caller, "room", "reference")


async def complete_movable(request: CompletionRequest) -> list[Option]:
    """List the things of the room, of the caller and of home."""
    caller, kinds = request.caller, ("data", "reference")
    return [
        *await list_bag_options(caller, "room", *kinds, note="here"),
        *await list_bag_options(caller, "me", *kinds, note="yours"),
        *await list_bag_options(caller, "home", *kinds, prefix="home:", note="in home"),
    ]


async def complete_dropped(request: CompletionRequest) -> list[Option]:
    """List the names of dropped things of the room and of the caller, the last first."""
    caller = request.caller
    bag_ids = list_bag_ids(caller)
    names = await caller.world.store.read(
        lambda conn: bag_reads.read_deleted_names(conn, bag_ids, MAX_BAG_OPTIONS)
    )
    return [(name, "dropped") for name in names]


async def complete_present(request: CompletionRequest) -> list[Option]:
    """List the other agents that are in the room."""
    return [option for option in agent_options(request.caller, "") if option[1] == "here"]


def _complete_members(matches: Callable[[Member, int], bool], note: str) -> Completer:
    async def complete(request: CompletionRequest) -> list[Option]:
        caller, now = request.caller, now_ms()
        room = await caller.room()
        names = (
            caller.world.agents.name_of(member.agent_id)
            for member in room.members.values()
            if matches(member, now)
        )
        return [(name, note) for name in sorted(names)]

    return complete


async def complete_tool_arguments(request: CompletionRequest) -> list[Option]:
    """List arguments of the tool in `request.given` not given yet, as `NAME=`.

    After `NAME=` the values are listed, if the tool's schema names them.
    """
    name, *words = request.given or ("",)
    caller = request.caller
    load = await caller.loadout()
    item = NameTable(load.tools).find(name)
    if item is None or request.typed.startswith("{") or words[:1] == ["{"]:
        return []
    used = {word.partition("=")[0] for word in words}
    parameters = [
        parameter
        for parameter in describe_parameters(item.thing)
        if parameter.name not in used and _ARGUMENT_NAME.fullmatch(parameter.name)
    ]
    argument, equals, _ = request.typed.partition("=")
    if equals:
        return [
            (f"{argument}={_write_value(value)}", "")
            for parameter in parameters
            if parameter.name == argument
            for value in parameter.values
        ]
    return [
        (f"{parameter.name}=", parameter.note)
        for parameter in sorted(parameters, key=lambda parameter: not parameter.required)
    ]


def _write_value(value: Any) -> str:
    """Write a value of a schema as it is typed after `NAME=`."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if value.isprintable() and " " not in value else json.dumps(value)


DroppableName: TypeAlias = Annotated[str, Arg(complete=complete_bag)]
TextName: TypeAlias = Annotated[str, Arg(complete=complete_texts)]
ReferenceName: TypeAlias = Annotated[str, Arg(complete=complete_references)]
MovableName: TypeAlias = Annotated[str, Arg(complete=complete_movable)]
DroppedName: TypeAlias = Annotated[str, Arg(complete=complete_dropped)]
PresentName: TypeAlias = Annotated[str, Arg(complete=complete_present)]
"""An agent that is in the room."""

MemberName: TypeAlias = Annotated[
    str, Arg(complete=_complete_members(lambda member, now: bool(member.role), "member"))
]
"""An agent that has a role in the room."""

MutedName: TypeAlias = Annotated[
    str,
    Arg(complete=_complete_members(lambda member, now: (member.muted_until or 0) > now, "muted")),
]
BannedName: TypeAlias = Annotated[
    str,
    Arg(complete=_complete_members(lambda member, now: (member.banned_until or 0) > now, "banned")),
]
ToolArguments: TypeAlias = Annotated[
    str | dict[str, Any], Arg("text", rest=True, complete=complete_tool_arguments)
]
"""Arguments of the tool that the word before names: NAME=VALUE words, or a JSON object.

A program may give the object itself.
"""


def read_tool_arguments(tool: Thing, given: str | dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of a tool that were given as text or as an object.

    Raises:
        Invalid: if a text cannot be parsed.
    """
    return parse_arguments(tool, given) if isinstance(given, str) else given or {}
