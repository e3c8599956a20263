"""The verbs of namespaces of tools: list, show, create and change them."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field
from sqlalchemy import Connection

from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.shorten import join_with_rest, shorten_name
from sshwarma.lua_tools import rename
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, Text, complete_tools
from sshwarma.verbs.namespace_fields import describe_exceptions, format_field
from sshwarma.verbs.namespace_summaries import summarize_namespaces
from sshwarma.verbs.namespace_views import (
    NamespaceDetails,
    NamespaceList,
    NamespaceSummary,
    NamespaceTool,
)
from sshwarma.verbs.registry import group, verb
from sshwarma.verbs.resolve import require_maker_or_admin
from sshwarma.verbs.rights import MAKER_RIGHT, ArgumentRight
from sshwarma.verbs.views import Confirmation, format_count
from sshwarma.world import leave_out, loadout, namespace_fields, namespaces, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.agents import SERVER_ROLES
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.caller import Caller
from sshwarma.world.equip_role import find_equip_role
from sshwarma.world.errors import Invalid, unknown_name_error
from sshwarma.world.reader import next_call
from sshwarma.world.things import Thing

MAX_NAMED_CHILDREN: Final = 5
"""Namespaces named that are removed with the one they are in; the rest are counted."""


async def complete_namespaces(request: CompletionRequest) -> list[Option]:
    """List every namespace that the caller can see."""
    return [_option(summary) for summary in await all_listed(request.caller)]


async def complete_loaded(request: CompletionRequest) -> list[Option]:
    """List the namespaces that are loaded."""
    return [_option(summary) for summary in await all_listed(request.caller) if summary.loaded]


async def complete_unloaded(request: CompletionRequest) -> list[Option]:
    """List the namespaces that are not loaded."""
    return [_option(summary) for summary in await all_listed(request.caller) if not summary.loaded]


async def complete_settable(request: CompletionRequest) -> list[Option]:
    """List every namespace, and the tools by their qualified names."""
    tools = [(name, "tool") for name, _ in await complete_tools(request)]
    return [*await complete_namespaces(request), *tools]


async def complete_fields(request: CompletionRequest) -> list[Option]:
    """List the fields of the namespace or tool in `request.given`, with examples."""
    of_tool = ":" in request.given[0] if request.given else False
    return [
        (field, f"as in {example}")
        for field, example in FIELD_EXAMPLES.items()
        if (field in namespace_fields.TOOL_FIELDS if of_tool else field != "leave_out")
    ]


async def complete_field_values(request: CompletionRequest) -> list[Option]:
    """List the values of the field in `request.given`, if they are known."""
    match [namespace_fields.split_action(word)[0] for word in request.given[1:]]:
        case ["auto_load" | "load_with_parent" | "enabled"]:
            return [("on", ""), ("off", "")]
        case ["equip_role"]:
            return [(role, "and higher roles") for role in SERVER_ROLES]
        case ["leave_out"]:
            own = (NO_VALUE, "what the tool itself says")
            return [*((word, "") for word in leave_out.RETENTION_MODES), own]
        case ["parent"]:
            return [("-", "no parent"), *await complete_namespaces(request)]
        case _:
            return []


def _option(listed: NamespaceSummary) -> Option:
    return listed.id, listed.description or listed.name


NamespaceName: TypeAlias = Annotated[str, Arg(complete=complete_namespaces)]
SettableName: TypeAlias = Annotated[str, Arg(complete=complete_settable)]
"""A namespace, or a tool by its qualified name."""

FIELD_EXAMPLES: Final = {
    "description": "Version control",
    "title": "Version control",
    "keywords": "git,commit",
    "parent": "code",
    "required_states": "ci-configured",
    "auto_load": "on",
    "load_with_parent": "on",
    "enabled": "off",
    "equip_role": "guest",
    "leave_out": "SHORT 500",
}
"""Fields that can be set, each with an example."""

NamespaceFieldName: TypeAlias = Annotated[
    str,
    Arg(complete=complete_fields),
    Field(
        json_schema_extra={
            "anyOf": [
                {"type": "string", "enum": list(FIELD_EXAMPLES)},
                {"type": "string", "pattern": rf"^leave_out\.{leave_out.ACTION_PATTERN.pattern}$"},
            ]
        }
    ),
]
"""One of FIELD_EXAMPLES, or `leave_out.ACTION`."""

NO_VALUE: Final = "-"
"""The value that empties a field."""

NamespaceFieldValue: TypeAlias = Annotated[
    str, Arg("text", rest=True, complete=complete_field_values)
]
LoadedNamespace: TypeAlias = Annotated[str, Arg(label="namespace", complete=complete_loaded)]
UnloadedNamespace: TypeAlias = Annotated[str, Arg(label="namespace", complete=complete_unloaded)]


@verb(
    "namespaces",
    section="Inventory",
    needs=Right.ENTER,
    namespace="global",
    tool="list_rooms",
    aliases=("ns",),
    examples=("/namespaces",),
)
async def show_namespaces(caller: Caller) -> NamespaceList:
    """List namespaces of tools: which are loaded, which could be.

    For models:
        List all namespaces of tools.
    """
    return NamespaceList(tuple(await all_listed(caller)))


async def all_listed(caller: Caller) -> list[NamespaceSummary]:
    """List every namespace, as it is for the caller in its room."""
    load = await caller.loadout()
    return await caller.world.memoized(
        ("namespaces", caller.room_id, caller.agent.id),
        lambda conn: summarize_namespaces(conn, caller, load),
    )


namespace = group(
    "namespace",
    section="Inventory",
    spellings={"": "namespaces", "list": "namespaces"},
    doc="""Show, make and change namespaces of tools.

    A namespace is changed by the agent that made it and by admins. Only they make others
    inside it.
    """,
)


@namespace.verb("show", needs=Right.ENTER, examples=("/namespace show git",))
async def show_namespace(caller: Caller, name: NamespaceName) -> NamespaceDetails:
    """Show a namespace and its tools.

    Args:
        name: its dotted name: git, or git.branch for one inside git.
    """
    return await read_namespace_details(caller, name)


@namespace.verb(
    "new",
    needs=Right.CREATE,
    also_needs=(MAKER_RIGHT,),
    examples=("/namespace new git.branch", "/namespace new git Version control"),
)
async def make_namespace(
    caller: Caller, name: NamespaceName, description: Text | None = None
) -> Confirmation:
    """Make a namespace.

    Args:
        name: its dotted name: git, or git.branch for one inside git.
        description: what its tools are for.
    """
    await check_may_create(caller, name)
    text = (description or "").strip()
    thing = await caller.change(
        lambda tx: namespaces.create_namespace(tx, name, caller.agent.id, text)
    )
    return Confirmation(
        f"Made namespace {thing.label}.",
        next_call("{} puts a tool into it.", "tool new", name=f"{thing.label}:NAME"),
    )


@namespace.verb(
    "set",
    needs=Right.ENTER,
    also_needs=(
        MAKER_RIGHT,
        ArgumentRight("field", Right.ADMIN, "to set auto_load", values=("auto_load",)),
        ArgumentRight("field", Right.CREATE, "to set parent", values=("parent",)),
    ),
    scope=TokenScope.BUILD,
    examples=(
        "/namespace set git keywords git,commit,push",
        "/namespace set deploy required_states ci-configured",
        "/namespace set git.branch load_with_parent on",
        "/namespace set git:log leave_out SHORT 500",
        "/namespace set notes:page leave_out.delete PARAMS_ONLY",
    ),
)
async def set_namespace(
    caller: Caller, name: SettableName, field: NamespaceFieldName, value: NamespaceFieldValue
) -> Confirmation:
    """Set a field of a namespace or of a tool.

    Fields of a namespace: description; title, which lists show beside the dotted name; keywords and
    required_states, separated by commas; parent; auto_load, load_with_parent and enabled, which are
    on or off; equip_role, the lowest server role that may equip itself with the tools (guest,
    member, admin or owner; default member): others use them where the room has
    equipped them. Fields of a tool: keywords, required_states and leave_out.

    leave_out decides what models read of a tool's calls once their turn is over: KEEP (the result
    as the turn was sent it), SHORT with a number of characters (default
    {MAX_CONTEXT_RESULT_CHARACTERS}), PARAMS_ONLY (the call, and the size of its result) or OMIT
    (neither). leave_out.ACTION decides it for calls with that argument action. The room's log
    keeps all.

    Args:
        name: a namespace, or a tool by its qualified name such as git:log.
        field: the name of the field: description, title, keywords, parent, required_states,
            auto_load, load_with_parent, enabled, equip_role, leave_out or leave_out.ACTION.
        value: its new value; - empties a text or a list, removes the parent, restores the
            default of equip_role, and takes what the tool itself says as leave_out.
    """
    thing = await caller.world.store.read(
        lambda conn: _find_namespace_or_tool(conn, name, caller.room_id)
    )
    await _require_maker(caller, thing)
    field = "title" if field == "name" else field
    if namespace_fields.split_action(field)[0] not in FIELD_EXAMPLES:
        near = suggest_near_names(field, FIELD_EXAMPLES)
        hint = near or f"Choose one of: {', '.join(FIELD_EXAMPLES)}."
        raise Invalid(f"Unknown field {shorten_name(field)}.", hint=hint)
    text = "" if value.strip() == NO_VALUE else value.strip()
    if field == "parent" and thing.kind != "tool":
        return await _move_namespace(caller, thing, text)
    new_thing = await caller.change(
        lambda tx: namespace_fields.set_namespace_field(tx, thing, field, text)
    )
    if namespace_fields.split_action(field)[0] == "leave_out":
        return await _describe_retention(caller, new_thing)
    value_now = format_field(new_thing, field, text) or "empty"
    if field == "equip_role" and not text:
        value_now = f"the default, {await _read_equip_role(caller, new_thing)}"
    said = f"{field} of {thing.label} is now: {value_now}."
    if field == "auto_load" and new_thing.auto_load:
        exceptions = await caller.world.store.read(
            lambda conn: loadout.find_off_contexts(conn, new_thing)
        )
        said += describe_exceptions(exceptions)
    return Confirmation(said)


@namespace.verb(
    "remove",
    needs=Right.ENTER,
    also_needs=(MAKER_RIGHT,),
    scope=TokenScope.BUILD,
    examples=("/namespace remove git.branch",),
)
async def remove_namespace(caller: Caller, name: NamespaceName) -> Confirmation:
    """Remove a namespace with its tools and the namespaces inside it.

    Args:
        name: its dotted name: git, or git.branch for one inside git.
    """
    thing = await caller.world.store.read(
        lambda conn: _find_namespace_or_tool(conn, name, caller.room_id)
    )
    await _require_maker(caller, thing)
    if thing.kind == "mcp":
        raise Invalid(
            f"{thing.label} is an MCP server.",
            hint=next_call("{} takes it out.", "mcp remove", name=thing.name),
        )
    if BUNDLE_KEY in thing.metadata:
        raise Invalid(
            f"{thing.label} is a toolset.",
            hint=next_call("{} takes it out.", "toolset uninstall", name=thing.label),
        )
    if thing.kind != "toolset":
        kind = "built in" if thing.kind == "container" else things.describe_kind(thing.kind)
        raise Invalid(f"{thing.label} is {kind} and cannot be removed.")
    labels, tools = await caller.change(lambda tx: namespaces.remove_namespace(tx, thing))
    names = join_with_rest(labels[1:], MAX_NAMED_CHILDREN)
    contents = f" with {names}" if names else ""
    return Confirmation(f"Removed {thing.label}{contents}: {format_count(tools, 'tool')}.")


async def _read_equip_role(caller: Caller, thing: Thing) -> str:
    """Return the role from which on agents may equip what is in a namespace."""
    chain = await caller.world.store.read(lambda conn: things.read_ancestors(conn, thing.id))
    return find_equip_role(thing, chain, "")


async def _describe_retention(caller: Caller, tool: Thing) -> Confirmation:
    """Say what models read of a tool's calls now."""
    now = await caller.world.store.read(lambda conn: leave_out.read_retention(conn, tool))
    return Confirmation(f"leave_out of {tool.label} is now: {now}.")


async def _move_namespace(caller: Caller, thing: Thing, parent: str) -> Confirmation:
    if parent:
        await check_may_create(caller, f"{parent}.{thing.name}")
    new_thing = await caller.change(
        lambda tx: rename.move_namespace(tx, thing, parent, caller.room_id)
    )
    return Confirmation(f"{thing.label} is now {new_thing.label}.")


async def check_may_create(caller: Caller, name: str) -> None:
    """Raise unless a caller with the create right may create a namespace.

    `name` is its dotted name. Inside another namespace only its maker may, because the inner one
    can load with it.

    Raises:
        Invalid: if the name is not allowed.
        Forbidden: if the caller may not.
    """
    parts = namespaces.check_namespace_name(name)

    def nearest(conn: Connection) -> Thing | None:
        paths = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
        existing = (things.find_by_qualified_name(conn, path) for path in paths)
        return next((thing for thing in existing if thing is not None), None)

    ancestor = await caller.world.store.read(nearest)
    if ancestor is not None:
        await _require_maker(caller, ancestor)


async def read_namespace_details(caller: Caller, name: str) -> NamespaceDetails:
    """Read a namespace with its tools, as it is for the caller.

    Raises:
        NotFound: if no namespace has that name.
    """
    space = await caller.world.store.read(
        lambda conn: namespaces.find_namespace(conn, name, caller.room_id)
    )
    tools = await caller.world.store.read(
        lambda conn: things.read_children(conn, space.thing.id, "tool")
    )
    summary = next(entry for entry in await all_listed(caller) if entry.id == space.id)
    load = await caller.loadout()
    on = {item.thing.id for item in load.usable_tools}
    return NamespaceDetails(
        summary,
        tuple(NamespaceTool(tool.label, tool.description, tool.id in on) for tool in tools),
    )


def _find_namespace_or_tool(conn: Connection, name: str, room_id: str) -> Thing:
    """Find a namespace, or a tool by its qualified name."""
    tool = things.find_by_qualified_name(conn, name) if ":" in name else None
    if tool is not None and tool.kind == "tool":
        return tool
    if ":" in name:
        raise unknown_name_error(
            "tool", name, hint=next_call("{} lists them.", "inv show", inventory="all")
        )
    return namespaces.find_namespace(conn, name, room_id).thing


async def _require_maker(caller: Caller, thing: Thing) -> None:
    await require_maker_or_admin(caller, thing, thing.label)
