"""Namespaces of tools: which there are, what each says of itself, making and changing one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_TREE_DEPTH
from sshwarma.lua_tools import rename
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import NamespaceName, Text, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import require_maker_or_admin
from sshwarma.verbs.views import Confirmation, draw_columns, view
from sshwarma.world import equipment, loadout, namespaces, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.loadout import Loadout
from sshwarma.world.namespaces import Namespace
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class NamespaceListItem:
    """A namespace as the caller has it where it stands. `tools_on` of its `tools` are on;
    `missing` are the states it requires that do not hold."""

    id: str
    name: str
    description: str
    keywords: tuple[str, ...]
    parent: str | None
    children: tuple[str, ...]
    required_states: tuple[str, ...]
    auto_load: bool
    load_with_parent: bool
    loaded: bool
    available: bool
    missing: tuple[str, ...]
    tools: int
    tools_on: int
    enabled: bool


@dataclass(frozen=True, slots=True)
class NamespaceList:
    namespaces: tuple[NamespaceListItem, ...]


@view(NamespaceList)
def draw_namespace_list(result: NamespaceList) -> Block:
    return block(
        line(("heading", "Namespaces:")),
        *draw_columns(
            (
                ("ok", "●") if one.loaded else ("dim", "○"),
                ("thing", "  " * one.id.count(".") + one.id),
                f"{one.tools_on}/{one.tools}" if one.tools_on else f"{one.tools}",
                ("warn", "" if one.available else _explain_unavailable(one)),
                _summarize_namespace(one),
            )
            for one in result.namespaces
        ),
        line(("dim", "● loaded, ○ not. /load NAME loads one, /find WORDS finds one.")),
    )


def _explain_unavailable(one: NamespaceListItem) -> str:
    """Why a namespace is not available."""
    if one.missing:
        return f"needs {', '.join(one.missing)}"
    return "unavailable" if one.enabled else "disabled"


def _summarize_namespace(one: NamespaceListItem) -> str:
    words = f" [{', '.join(one.keywords)}]" if one.keywords else ""
    return f"{one.description or one.name}{words}"


@verb(
    "namespaces",
    group="Inventory",
    needs=Right.ENTER,
    namespace="global",
    tool="list_rooms",
    aliases=("ns",),
    examples=("/namespaces",),
)
async def namespaces_(caller: Caller) -> NamespaceList:
    """List namespaces of tools: which are loaded, which could be"""
    return NamespaceList(tuple(await list_namespaces(caller)))


async def list_namespaces(caller: Caller) -> list[NamespaceListItem]:
    """Every namespace as the caller has it where it stands."""
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    return await caller.world.memo(
        ("namespaces", caller.room_id, caller.agent.id),
        lambda conn: _make_list_items(conn, caller, load),
    )


@dataclass(frozen=True, slots=True)
class NamespaceTool:
    """A tool of a namespace; whether it is on for the caller."""

    name: str
    description: str
    on: bool


@dataclass(frozen=True, slots=True)
class NamespaceDetails:
    namespace: NamespaceListItem
    tools: tuple[NamespaceTool, ...]


@view(NamespaceDetails)
def draw_namespace_details(shown: NamespaceDetails) -> Block:
    one = shown.namespace
    facts = (
        ("Name", one.name),
        ("Keywords", ", ".join(one.keywords)),
        ("Parent", one.parent or ""),
        ("Children", ", ".join(one.children)),
        ("Requires", ", ".join(one.required_states)),
        ("Missing", ", ".join(one.missing)),
        ("Loads by itself", "yes" if one.auto_load else ""),
        ("Loads with its parent", "yes" if one.load_with_parent else ""),
    )
    state = "loaded" if one.loaded else "not loaded"
    return block(
        line(("thing", one.id), f" - {one.description}" if one.description else ""),
        line(f"Status: {state}, {'available' if one.available else _explain_unavailable(one)}"),
        *(line(f"{name}: {value}") for name, value in facts if value),
        *([line(), line(f"Tools: {one.tools_on} of {one.tools} on")] if one.tools else []),
        *draw_columns(
            (("ok", "✓") if tool.on else ("dim", "·"), ("tool", tool.name), tool.description)
            for tool in shown.tools
        ),
    )


FIELD_EXAMPLES: Final = {
    "description": "Version control",
    "name": "Version control",
    "keywords": "git,commit",
    "parent": "code",
    "required_states": "ci-configured",
    "auto_load": "on",
    "load_with_parent": "on",
    "enabled": "off",
    "leave_out": "SHORT 500",
}
"""What can be set, each with an example."""


@verb(
    "namespace",
    group="Inventory",
    needs=Right.ENTER,
    examples=(
        "/namespace show git",
        "/namespace new git.branch",
        "/namespace set git keywords git,commit,push",
        "/namespace set deploy required_states ci-configured",
        "/namespace set git.branch load_with_parent on",
        "/namespace set git:log leave_out SHORT 500",
        "/namespace remove git.branch",
    ),
    scope=TokenScope.BUILD,
)
async def namespace(
    caller: Caller,
    what: Literal["list", "show", "new", "set", "remove"] = "list",
    name: NamespaceName | None = None,
    field: Word | None = None,
    value: Text | None = None,
) -> NamespaceList | NamespaceDetails | Confirmation:
    """See, make and change a namespace of tools

    Who made one changes it and makes others inside it, and administrators; auto_load is theirs
    alone. A tool can be set too: keywords and required_states of its own, and leave_out: what
    models are told of its results once the turn is over - KEEP, SHORT and a number of characters,
    PARAMS_ONLY (that it was called), or OMIT. Lists are separated by commas; - empties a text or
    a list, and as the parent means none.

    what: list, show, new, set or remove.
    name: its dotted name: git, or git.branch for one inside git.
    field: for set: description, name, keywords, parent, required_states, auto_load,
        load_with_parent, enabled or leave_out; for new the description begins here.
    value: for set what it is to be.
    """
    if what == "list":
        return await namespaces_(caller)
    if name is None:
        raise Invalid(f"Say which namespace to {what}.", hint=f"As in /namespace {what} git")
    if what == "new":
        about = " ".join(part for part in (field, value) if part)
        return await _create_namespace(caller, name, about)
    if what == "show":
        return await read_namespace_details(caller, name)
    thing = await caller.world.store.read(
        lambda conn: _find_namespace_or_tool(conn, name, caller.room_id)
    )
    await _check_may_change(caller, thing)
    if what == "remove":
        return await _remove_namespace(caller, thing)
    return await _set_field(caller, thing, field, value)


async def _set_field(
    caller: Caller, thing: Thing, field: str | None, value: str | None
) -> Confirmation:
    if field == "title":
        field = "name"
    if field is not None and field not in FIELD_EXAMPLES:
        raise Invalid(
            f"{field[:40]} is nothing to set.", hint=f"One of {', '.join(FIELD_EXAMPLES)}."
        )
    if field is None or value is None:
        example = f"{field} {FIELD_EXAMPLES[field]}" if field else "keywords git,commit"
        raise Invalid("Say what to set.", hint=f"As in /namespace set {thing.label} {example}")
    text = "" if value.strip() == "-" and field != "leave_out" else value.strip()
    if field == "parent":
        return await _move_namespace(caller, thing, text)
    if field == "auto_load":
        await caller.require(Right.ADMIN)  # it is on for everybody, in every room
    made = await caller.change(lambda tx: namespaces.set_namespace_field(tx, thing, field, text))
    return Confirmation(
        f"{field} of {thing.label} is now: {_format_field(made, field, text) or 'empty'}."
    )


def _format_field(thing: Thing, field: str, text: str) -> str:
    """A field as it was understood."""
    match field:
        case "keywords" | "required_states":
            return ", ".join(namespaces.read_metadata_words(thing, field))
        case "auto_load":
            return "on" if thing.auto_load else "off"
        case "enabled":
            return "on" if thing.enabled else "off"
        case "load_with_parent":
            return "on" if thing.metadata.get(field) else "off"
        case "leave_out":
            return text.upper()
        case _:
            return text


async def _move_namespace(caller: Caller, thing: Thing, parent: str) -> Confirmation:
    if parent:
        await check_may_create(caller, f"{parent}.{thing.name}")
    else:
        await caller.require(Right.CREATE)
    moved = await caller.change(lambda tx: rename.move_namespace(tx, thing, parent, caller.room_id))
    return Confirmation(f"{thing.label} is now {moved.label}.")


async def _create_namespace(caller: Caller, name: str, about: str) -> Confirmation:
    await check_may_create(caller, name)
    made = await caller.change(
        lambda tx: namespaces.create_namespace(tx, name, caller.agent.id, about.strip())
    )
    return Confirmation(
        f"Made namespace {made.label}. /tool new {made.label}:NAME puts a tool into it."
    )


async def check_may_create(caller: Caller, name: str) -> None:
    """Go on only if the caller may make a namespace of that dotted name: inside another, that
    takes who made that one, because what is inside can load with it.

    Raises:
        Invalid: if nothing may have that name.
        Forbidden: if the caller may not.
    """
    await caller.require(Right.CREATE)
    parts = namespaces.check_namespace_name(name)

    def nearest(conn: Connection) -> Thing | None:
        paths = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
        found = (things.find_by_qualified_name(conn, path) for path in paths)
        return next((thing for thing in found if thing is not None), None)

    above = await caller.world.store.read(nearest)
    if above is not None:
        await _check_may_change(caller, above)


async def read_namespace_details(caller: Caller, name: str) -> NamespaceDetails:
    """A namespace with its tools, as the caller has it.

    Raises:
        NotFound: if there is none of that name.
    """
    space = await caller.world.store.read(
        lambda conn: namespaces.find_namespace(conn, name, caller.room_id)
    )
    found = await caller.world.store.read(
        lambda conn: things.read_children(conn, space.thing.id, "tool")
    )
    known = next(one for one in await list_namespaces(caller) if one.id == space.id)
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    on = {item.thing.id for item in load.usable}
    return NamespaceDetails(
        known,
        tuple(NamespaceTool(tool.label, tool.description, tool.id in on) for tool in found),
    )


async def _remove_namespace(caller: Caller, thing: Thing) -> Confirmation:
    if thing.kind == "mcp":
        raise Invalid(
            f"{thing.label} is an MCP server.", hint=f"/mcp remove {thing.name} takes it out."
        )
    if thing.kind != "toolset":
        what = "the world's own" if thing.kind == "container" else f"a {thing.kind}"
        raise Invalid(f"{thing.label} is {what} and cannot be removed like this.")
    gone, tools = await caller.change(lambda tx: namespaces.remove_namespace(tx, thing))
    inside = f" with {', '.join(gone[1:6])}" if len(gone) > 1 else ""
    more = f" and {len(gone) - 6} more" if len(gone) > 6 else ""
    counted = f"{tools} tool{'' if tools == 1 else 's'}"
    return Confirmation(f"Removed {thing.label}{inside}{more}: {counted}.")


def _find_namespace_or_tool(conn: Connection, name: str, room_id: str) -> Thing:
    """A namespace, or a tool by its qualified name."""
    tool = things.find_by_qualified_name(conn, name) if ":" in name else None
    if tool is not None and tool.kind == "tool":
        return tool
    if ":" in name:
        raise NotFound(f"There is no tool {name[:60]}.", hint="/inv all lists them.")
    return namespaces.find_namespace(conn, name, room_id).thing


async def _check_may_change(caller: Caller, thing: Thing) -> None:
    maker = caller.world.agents.name_of(thing.created_by)
    words = f"{thing.label} was made by {maker}: they or an administrator change it."
    if thing.created_by is None:
        words = f"{thing.label} is the world's own: an administrator changes it."
    await require_maker_or_admin(caller, thing, words)


def _make_list_items(conn: Connection, caller: Caller, load: Loadout) -> list[NamespaceListItem]:
    contexts = [caller.room_id, caller.agent.id]
    equipped = {row.thing.id for row in equipment.read_equipped_rows(conn, contexts) if row.live}
    on: dict[str, int] = {}
    for item in load.usable:
        on[item.thing.parent_id or ""] = on.get(item.thing.parent_id or "", 0) + 1
    held = loadout.read_states(conn, caller.room_id)
    held |= caller.world.found.get(caller.room_id, frozenset())
    found = namespaces.read_namespaces(conn, caller.room_id)
    by_id = {space.id: space for space in found}
    return [_make_list_item(space, by_id, equipped, on, held) for space in found]


def _make_list_item(
    space: Namespace,
    by_id: dict[str, Namespace],
    equipped: set[str],
    on: dict[str, int],
    held: frozenset[str],
) -> NamespaceListItem:
    chain, above = [space], space.parent
    while above in by_id and len(chain) < MAX_TREE_DEPTH:
        chain.append(by_id[above])
        above = by_id[above].parent
    missing = namespaces.missing_states(
        (state for link in chain for state in link.required_states), held
    )
    usable = all(link.thing.enabled and link.thing.available for link in chain)
    tools_on = on.get(space.thing.id, 0)
    return NamespaceListItem(
        space.id,
        space.title,
        space.thing.description,
        space.keywords,
        space.parent,
        space.children,
        space.required_states,
        space.thing.auto_load,
        space.load_with_parent,
        bool(tools_on) or space.thing.id in equipped or space.thing.auto_load,
        usable and not missing,
        missing,
        space.tools,
        tools_on,
        all(link.thing.enabled for link in chain),
    )
