"""The verb examine: kind, location, content and use of one thing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, func, select

from sshwarma.common.limits import MAX_SHOWN_BAG_THINGS
from sshwarma.terminal.text import Block, Line, Span, block, line, text_lines
from sshwarma.tools.type_names import name_type
from sshwarma.verbs.arguments import ThingName
from sshwarma.verbs.examine_facts import read_agent_facts, read_room_facts
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import find_thing
from sshwarma.verbs.views import (
    cut_to_line,
    draw_columns,
    format_count,
    format_duration,
    format_kind,
    view_for_reader,
)
from sshwarma.world import leave_out, loadout, namespaces, overrides, things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.loadout import NAMESPACE_KINDS
from sshwarma.world.portable_sql import seconds_between
from sshwarma.world.reader import Reader
from sshwarma.world.schema import rows, tool_calls
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import mcp_tool_name, model_tool_name

MAX_SHOWN_CALLS = 5

_APPROVAL_FACT: Final = (
    "each call waits for a person with the build right, unless such a person makes it"
)


@dataclass(frozen=True, slots=True)
class ContainedThing:
    """A thing in a bag, with one line about it."""

    name: str
    kind: str
    description: str


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One recorded call of a tool; `ok` is None while it runs or waits."""

    seconds_ago: int
    who: str
    arguments: str
    ok: bool | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A tool's policies for later contexts, such as `SHORT 500`.

    `decided` is whether people decided any of it.
    """

    policy: str
    per_action: dict[str, str]
    decided: bool


CONTAINER_TITLES: Final = {
    namespaces.NAMESPACE_CONTAINER: "namespaces",
    "mcps": "MCP servers",
    "world": "this server",
}
"""Containers of the tree that people do not know by their name."""


@dataclass(frozen=True, slots=True)
class ThingDetails:
    """Details of a thing that the caller may see.

    Attributes:
        renderer: of a tool whose results are drawn by one, its name and configuration.
        confirms: of a tool, whether each call waits for a person.
        leave_out: of a tool, its policies for contexts of later turns; see `world.leave_out`.
    """

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
    input_schema: dict[str, Any] | None = None
    calls: tuple[RecordedCall, ...] = ()
    calls_total: int = 0
    calls_failed: int = 0
    calls_average: float | None = None
    contains: tuple[ContainedThing, ...] = ()
    renderer: dict[str, Any] | None = None
    confirms: bool = False
    leave_out: LeftOut | None = None


@view_for_reader(ThingDetails)
def draw_thing_details(details: ThingDetails, reader: Reader) -> Block:
    """Draw a thing's kind, location, status and content, and the calls of a tool."""
    is_tool = details.kind == "tool"
    title = [("thing", reader.name_tool(details.name) if is_tool else details.name)] + (
        [("", f" - {details.description}")] if details.description else []
    )
    lines = [line(*title), line(f"Kind: {format_kind(details.kind)}")]
    if details.kind not in ("room", "agent"):
        lines.append(line(f"Location: {_describe_location(details)}"))
        lines.append(line(f"Status: {details.status}"))
    lines += [line(f"{name}: {value}", hang=2) for name, value in details.facts.items()]
    if details.uri is not None:
        lines.append(line("URI: ", ("link", details.uri)))
    if details.parameters:
        lines += [line(), line("Parameters:")]
        lines += draw_columns(
            (("tool", name), ("dim", kind), text)
            for name, kind, text in details.parameters
            if reader.knows_argument(details.name, name.removesuffix("?"))
        )
    if details.content is not None:
        lines += [line(), *text_lines(details.content, indent=2)]
    if details.contains:
        lines += [line(), line("Contains:")]
        lines += draw_columns(
            (
                ("thing", f"· {thing.name}"),
                ("dim", f"[{format_kind(thing.kind)}]"),
                cut_to_line(thing.description),
            )
            for thing in details.contains
        )
    if details.kind == "tool":
        lines += _draw_calls(details)
    return block(*lines)


def _describe_location(details: ThingDetails) -> str:
    if details.location_kind != "container":
        return f"{details.location} ({format_kind(details.location_kind)})"
    if details.kind == "tool":
        return f"{details.location} (namespace)"
    return CONTAINER_TITLES.get(details.location, details.location)


_MARKS: Final[dict[bool | None, Span]] = {
    True: ("ok", "✓"),
    False: ("error", "✗"),
    None: ("dim", "…"),
}
"""The mark of a call by how it has ended; None has not."""


def _draw_calls(details: ThingDetails) -> list[Line]:
    if not details.calls_total:
        return [line(), line(("dim", "No calls yet."))]
    recent = (
        (
            f"{format_duration(call.seconds_ago)} ago",
            ("name", call.who),
            call.arguments,
            _MARKS[call.ok],
            f"{call.seconds:.1f}s" if call.seconds is not None else "",
        )
        for call in details.calls
    )
    average = f", avg {details.calls_average:.1f}s" if details.calls_average is not None else ""
    return [
        line(),
        line("Recent calls:"),
        *draw_columns(recent),
        line(),
        line(
            f"Stats: {format_count(details.calls_total, 'call')},"
            f" {format_count(details.calls_failed, 'error')}{average}"
        ),
    ]


@verb(
    "examine",
    section="Looking",
    needs=Right.ENTER,
    aliases=("x",),
    examples=("/examine sshwarma:look", "/examine prompt:code-style", "/examine @alice"),
)
async def examine(caller: Caller, thing: ThingName) -> ThingDetails:
    """Show a thing.

    Shows the parameters, recent calls and statistics of a tool, the text of data, the URL of a
    reference, the contents of a namespace; who is in a room, who may enter it and where its exits
    lead; what an agent is, where it is and which rooms it owns.

    Args:
        thing: a qualified name (holler:sample), a thing in this room's bag or yours, home:NAME,
            @agent, a room, or a namespace.
    """
    return await read_thing_details(caller, await find_thing(caller, thing))


async def read_thing_details(caller: Caller, thing: Thing) -> ThingDetails:
    """Read the details of a thing that the caller may see."""
    facts: dict[str, str] = {}
    may_see_inside = True
    if thing.kind == "room":
        room = await caller.world.room(thing.id)
        facts = await read_room_facts(caller, room)
        may_see_inside = Right.ENTER in caller.rights_in(room, now_ms())
    agent = caller.world.agents.get(thing.id) if thing.kind == "agent" else None
    if agent is not None:
        facts = await read_agent_facts(caller, agent)
        may_see_inside = agent.id == caller.agent.id
    details = await caller.world.store.read(lambda conn: _collect_details(conn, caller, thing))
    return replace(
        details,
        facts=facts | details.facts,
        contains=details.contains if may_see_inside else (),
    )


def _collect_details(conn: Connection, caller: Caller, thing: Thing) -> ThingDetails:
    parent = things.get_thing(conn, thing.parent_id) if thing.parent_id else None
    facts: dict[str, str] = {}
    renderer: dict[str, Any] | None = None
    left_out: LeftOut | None = None
    if thing.kind in NAMESPACE_KINDS and thing.kind != "room":
        facts |= _namespace_facts(conn, thing)
    for key, label in (("keywords", "Keywords"), ("required_states", "Required states")):
        if thing.metadata.get(key):
            facts[label] = ", ".join(thing.metadata[key])
    if thing.kind == "tool":
        facts |= _name_facts(conn, thing, caller.reader)
        override = overrides.read_tool_override(conn, thing)
        retention = leave_out.resolve_retention(thing, override)
        facts["Leaves out"] = f"{retention}{' (set here)' if retention.is_decided else ''}"
        actions = {name: str(policy) for name, policy in retention.per_action.items()}
        left_out = LeftOut(str(retention.whole), actions, retention.is_decided)
        thing = overrides.apply_override(thing, override)
        if thing.metadata.get(overrides.CONFIRM_KEY):
            facts["Approval"] = _APPROVAL_FACT
        if override.renderer is not None:
            facts["Results"] = f"drawn as {override.renderer}"
            renderer = {"renderer": override.renderer, "config": override.renderer_config or {}}
    if thing.created_by:
        facts["Made by"] = caller.world.agents.name_of(thing.created_by)
    contains: tuple[ContainedThing, ...] = ()
    if thing.kind != "tool":
        contains = tuple(
            ContainedThing(child.name, child.kind, child.description)
            for child in things.read_children(conn, thing.id, limit=MAX_SHOWN_BAG_THINGS)
        )
    details = ThingDetails(
        name=thing.label,
        kind=thing.kind,
        description=thing.description,
        location=parent.label if parent else "nowhere",
        location_kind=parent.kind if parent else "root",
        status=_thing_status(conn, caller, thing),
        content=thing.content,
        uri=thing.uri,
        facts=facts,
        contains=contains,
        renderer=renderer,
        confirms=thing.kind == "tool" and bool(thing.metadata.get(overrides.CONFIRM_KEY)),
        leave_out=left_out,
    )
    return _add_calls(conn, caller, thing, details) if thing.kind == "tool" else details


def _namespace_facts(conn: Connection, thing: Thing) -> dict[str, str]:
    """Return the facts of a namespace; empty for any other thing."""
    namespace = next((s for s in namespaces.read_namespaces(conn) if s.thing.id == thing.id), None)
    if namespace is None:
        return {}
    return {
        "Name": namespace.title,
        "Keywords": ", ".join(namespace.keywords) or "none",
        "Parent": namespace.parent or "none",
        "Children": ", ".join(namespace.children) or "none",
        "Required states": "none",
        "Loads by itself": "yes" if thing.auto_load else "no",
        "Loads with its parent": "yes" if namespace.load_with_parent else "no",
    }


def _name_facts(conn: Connection, tool: Thing, reader: Reader) -> dict[str, str]:
    """Return a tool's names at each door, and its description before an override.

    A model has no other door.
    """
    override = overrides.read_tool_override(conn, tool)
    facts: dict[str, str] = {}
    if reader.is_person:
        facts["SSH"] = f"/run {tool.label}"
    if reader.kind != "model":
        facts |= {
            "Models call it": model_tool_name(tool.label),
            "MCP": mcp_tool_name(tool.label),
            "HTTP": f"POST /api/v1/verbs/run, name {tool.label}",
        }
    if override.name is not None:
        facts["Shown as"] = override.name
    if override.description is not None:
        facts["Its own description"] = tool.description or "none"
    return facts


def _thing_status(conn: Connection, caller: Caller, thing: Thing) -> str:
    if thing.kind in ("tool", "toolset", "mcp"):  # states that they require may not hold here
        states = loadout.read_states(conn, caller.room_id)
        states |= caller.world.detected_states(caller.room_id)
        item = loadout.LoadoutItem(thing, "always", 0.0, "")
        return loadout.AncestorCache(conn).resolve_item(item, states).obstacle or "available"
    if not thing.enabled:
        return "disabled"
    if not thing.available:
        return "unavailable"
    return str(thing.metadata.get("obstacle") or "available")


def _add_calls(
    conn: Connection, caller: Caller, tool: Thing, details: ThingDetails
) -> ThingDetails:
    condition = tool_calls.c.tool_id == tool.qualified_name
    query = (
        select(tool_calls, rows.c.author_id, rows.c.created_at)
        .outerjoin(rows, rows.c.id == tool_calls.c.id)
        .where(condition)
        .order_by(tool_calls.c.started_at.desc())
        .limit(MAX_SHOWN_CALLS)
    )
    calls = tuple(
        RecordedCall(
            int((now_ms() - (row["created_at"] or now_ms())) / 1000),
            caller.world.agents.name_of(row["author_id"]),
            row["args"] if len(row["args"]) <= 60 else row["args"][:59] + "…",
            row["status"] == "success" if row["finished_at"] is not None else None,
            _seconds_between(row["started_at"], row["finished_at"]),
        )
        for row in conn.execute(query).mappings()
    )
    seconds = seconds_between(tool_calls.c.started_at, tool_calls.c.finished_at)
    total, failures, average = conn.execute(
        select(
            func.count(),
            func.count().filter(tool_calls.c.status == "error"),
            func.avg(seconds),
        ).where(condition)
    ).one()
    return replace(
        details,
        parameters=tuple(_list_parameters(tool.metadata.get("input_schema") or {})),
        input_schema=tool.metadata.get("input_schema"),
        calls=calls,
        calls_total=total,
        calls_failed=failures,
        calls_average=average,
    )


def _list_parameters(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    required = schema.get("required", ())
    for name, parameter in schema.get("properties", {}).items():
        optional = "" if name in required else "?"
        kind = name_type(parameter, schema)
        if parameter.get("default") is not None:
            kind += f"={json.dumps(parameter['default'], ensure_ascii=False)}"
        yield f"{name}{optional}", kind, " ".join(str(parameter.get("description", "")).split())


def _seconds_between(started: str, finished: str | None) -> float | None:
    if finished is None:
        return None
    return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
