"""The verbs of `/tool`: list, write, test, enable, disable, describe, remove."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from sshwarma.common.limits import (
    MAX_SHOWN_AVAILABLE_TOOLS,
    MAX_TOOL_DESCRIPTION_CHARACTERS,
)
from sshwarma.lua_tools import creation
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.services import services_of
from sshwarma.tools.names import check_tool_name
from sshwarma.verbs.arguments import (
    Arg,
    CompletionRequest,
    LuaAfterEquals,
    Option,
    TextAfterEquals,
    ToolName,
)
from sshwarma.verbs.edit_draft import EditDraft, make_edit_draft
from sshwarma.verbs.examine import ThingDetails, read_thing_details
from sshwarma.verbs.inventory import find_origin, find_places, list_equippable_tools
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import (
    MAKER_RIGHT,
    NEW_NAMESPACE_RIGHT,
    TOOL_RIGHT,
    ArgumentRight,
)
from sshwarma.verbs.thing_completion import ToolArguments, read_tool_arguments
from sshwarma.verbs.tool_access import (
    check_may_decide,
    find_tool,
    resolve_new_tool,
)
from sshwarma.verbs.tool_views import ListedTool, NewTool, ToolList, ToolTestResult
from sshwarma.verbs.views import Confirmation
from sshwarma.world import namespaces, overrides, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound, empty_error, too_long_error
from sshwarma.world.glob_patterns import compile_glob
from sshwarma.world.loadout import LoadoutItem
from sshwarma.world.reader import TextByReader, next_call
from sshwarma.world.store import Change
from sshwarma.world.thing_size import check_thing_size
from sshwarma.world.things import Thing

TOOL_RIGHTS: Final = (TOOL_RIGHT, MAKER_RIGHT)
"""Rights of the verbs that change a tool."""


async def complete_lua_tools(request: CompletionRequest) -> list[Option]:
    """List the tools that were written here and are equipped for the caller."""
    caller = request.caller
    load = await caller.loadout()
    return [
        (item.thing.label, item.thing.description)
        for item in load.tools
        if creation.is_lua_tool(item.thing)
    ]


LuaToolName: TypeAlias = Annotated[str, Arg(complete=complete_lua_tools)]
"""A tool that was written here."""


tool = group(
    "tool",
    section="Building",
    default="list",
    doc="""Write tools in Lua, test them, and enable or disable tools.

    A tool written here lies in this room: everybody in the room can call it, models too. me:NAME
    makes a tool of your own for every room; NAMESPACE:NAME puts it into a namespace that
    you made, and makes the namespace if it does not exist. global:NAME is on everywhere and needs
    the admin right. /help scripts explains how to write a script.
    """,
)


@tool.verb("list", needs=Right.ENTER, tool=False, examples=("/tool list", "/tool list sshwarma:*"))
async def list_tools(caller: Caller, pattern: ToolName | None = None) -> ToolList:
    """List tools.

    Args:
        pattern: a name, or a pattern such as den:* (default: tools that are on here, in this room
            or in your bag).
    """
    load = await caller.loadout()
    on = {item.thing.id for item in load.tools}
    available_items = await list_equippable_tools(caller, load, MAX_SHOWN_AVAILABLE_TOOLS * 10)
    items: list[LoadoutItem] = [*load.tools, *available_items]
    if pattern is None:
        bags = (caller.room_id, caller.agent.id)
        items = [i for i in items if i.thing.id in on or i.thing.parent_id in bags]
    else:
        matches = compile_glob(pattern, has_sets=False)
        items = [
            i for i in items if matches(i.thing.label) or pattern in (i.thing.name, i.namespace)
        ]
    listing = sorted(items, key=lambda item: item.thing.label)
    places = await find_places(caller)
    return ToolList(
        pattern or "this room",
        tuple(
            ListedTool(
                name=item.thing.label,
                description=item.thing.description.split("\n", 1)[0],
                made_by="lua" if creation.is_lua_tool(item.thing) else item.namespace,
                equipped=item.thing.id in on,
                obstacle=item.obstacle,
                title=_find_title(item),
                renderer=item.renderer,
                confirms=bool(item.thing.metadata.get(overrides.CONFIRM_KEY)),
                namespace=item.namespace,
                origin=find_origin(item),
                equipped_in=places.get(item.thing.id, ()),
            )
            for item in listing[:MAX_SHOWN_AVAILABLE_TOOLS]
        ),
        len(listing) > MAX_SHOWN_AVAILABLE_TOOLS,
    )


def _find_title(item: LoadoutItem) -> str:
    """Return the name of a tool for people, or "" if it has none but its id."""
    given = str(item.thing.metadata.get("display_name", ""))
    return item.title or (given if given != item.thing.name else "")


@tool.verb("show", needs=Right.ENTER, tool=False, examples=("/tool show sshwarma:look",))
async def show_tool(caller: Caller, name: ToolName) -> ThingDetails:
    """Show a tool: its arguments, its script and its calls.

    Args:
        name: the tool.
    """
    return await read_thing_details(caller, await find_tool(caller, name))


@tool.verb(
    "new",
    needs=Right.ENTER,
    also_needs=(
        ArgumentRight("name", Right.CREATE, "to make a tool"),
        NEW_NAMESPACE_RIGHT,
        *TOOL_RIGHTS,
    ),
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool new dice = return math.random(6)", "/tool new me:coin = return 'heads'"),
)
async def write_tool(caller: Caller, name: LuaToolName, text: LuaAfterEquals) -> NewTool:
    """Make a tool, or replace the script of one.

    For people:
        From a shell: ssh HOST tool new NAME < script.lua

    Args:
        name: the tool.
        text: the script, in Lua.
    """
    place, plain = await resolve_new_tool(caller, name)
    if not text.strip():
        raise empty_error(
            "text",
            hint=(
                next_call("Use {}.", "tool new", name=name, text="return 'hello'"),
                TextByReader(f"From a shell: ssh HOST tool new {name} < script.lua"),
            ),
        )
    size = check_thing_size(caller.limits, text)
    caller.charge_text_volume(size)
    declaration = parse_declaration(text)
    await services_of(caller).lua_tools.check_syntax(plain, text)

    def work(tx: Change) -> tuple[Thing, bool]:
        if place is None:
            bag = namespaces.create_namespace(tx, name.rpartition(":")[0], caller.agent.id)
        else:
            bag = things.get_live_thing(tx.conn, place.id)
        made = creation.store_tool(
            tx, bag=bag, name=plain, source=text, declaration=declaration, by=caller.agent.id
        )
        if bag.id == caller.room_id:
            caller.append_notice(tx, f"{'made' if made[1] else 'changed'} the tool {made[0].label}")
        return made

    thing, made = await caller.change(work)
    return NewTool(thing.label, made, size, declaration.description, declaration.input_schema)


@tool.verb(
    "edit",
    ssh_only=True,
    in_console=True,
    needs=Right.ENTER,
    also_needs=TOOL_RIGHTS,
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool edit dice",),
)
async def edit_tool(caller: Caller, name: LuaToolName) -> EditDraft:
    """Edit the script of a tool in the line editor.

    Args:
        name: the tool; a new name starts an empty script.
    """
    try:
        thing = await find_tool(caller, name)
    except NotFound:
        check_tool_name(name.rpartition(":")[2])
        line = f"/tool new {name}"
        return make_edit_draft(caller, name, "", line, is_new=True, language="lua")
    if not creation.is_lua_tool(thing):
        raise Invalid(
            f"{thing.label} is not a Lua tool.",
            hint=(
                next_call(
                    "{} works on every tool.", "tool describe", name=thing.label, text="TEXT"
                ),
                next_call("So does {}.", "tool disable", name=thing.label),
            ),
        )
    await check_may_decide(caller, thing)
    short = {caller.room_id: thing.name, caller.agent.id: f"me:{thing.name}"}
    short_name, source = short.get(thing.parent_id or "", thing.label), thing.content or ""
    line = f"/tool new {short_name}"
    return make_edit_draft(caller, thing.label, source, line, language="lua")


@tool.verb(
    "test",
    needs=Right.ENTER,
    also_needs=TOOL_RIGHTS,
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool test dice", "/tool test dice sides=20"),
)
async def try_tool(
    caller: Caller, name: LuaToolName, text: ToolArguments | None = None
) -> ToolTestResult:
    """Call a Lua tool and show the result only to you.

    The log keeps neither this call nor those that the tool makes. What these change or say is real.
    Those who may change a disabled tool can still test it.

    Args:
        name: the tool.
        text: its arguments: NAME=VALUE words, or a JSON object.
    """
    thing = await find_tool(caller, name)
    if not creation.is_lua_tool(thing):
        raise Invalid(
            f"{thing.label} is not a Lua tool.",
            hint=next_call("{} calls it.", "run", name=thing.label),
        )
    await check_may_decide(caller, thing)
    outcome, result, seconds = await services_of(caller).tools.test(
        caller, thing, read_tool_arguments(thing, text)
    )
    return ToolTestResult(
        tool=thing.label,
        ok=outcome == "result",
        text=result.text,
        structured=result.structured,
        printed=result.printed_lines,
        seconds=seconds,
    )


@tool.verb(
    "enable",
    needs=Right.ENTER,
    also_needs=TOOL_RIGHTS,
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool enable dice",),
)
async def enable_tool(caller: Caller, name: ToolName) -> Confirmation:
    """Enable a tool that was disabled.

    Args:
        name: the tool.
    """
    return await _enable_tool(caller, name, on=True)


@tool.verb(
    "disable",
    needs=Right.ENTER,
    also_needs=TOOL_RIGHTS,
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool disable dice",),
)
async def disable_tool(caller: Caller, name: ToolName) -> Confirmation:
    """Disable a tool for everybody at once.

    The tool itself stays as it is; those who may change it can still
    test it.

    Args:
        name: the tool.
    """
    return await _enable_tool(caller, name, on=False)


async def _enable_tool(caller: Caller, name: str, *, on: bool) -> Confirmation:
    thing = await find_tool(caller, name)
    await check_may_decide(caller, thing)
    word = "enabled" if on else "disabled"
    override = await caller.world.store.read(lambda c: overrides.read_tool_override(c, thing))
    if overrides.apply_override(thing, override).enabled == on:
        return Confirmation(f"{thing.label} is already {word}.")
    await change_tool(caller, thing, word, enabled=on)
    return Confirmation(f"{thing.label} is {word}.")


@tool.verb(
    "describe",
    needs=Right.ENTER,
    also_needs=TOOL_RIGHTS,
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool describe dice = Rolls one die.", "/tool describe dice ="),
)
async def describe_tool(caller: Caller, name: ToolName, text: TextAfterEquals) -> Confirmation:
    """Replace the description of a tool.

    The tool itself stays as it is.

    Args:
        name: the tool.
        text: the description; nothing after = restores the tool's own.
    """
    thing = await find_tool(caller, name)
    await check_may_decide(caller, thing)
    description = " ".join(text.split())
    if len(description) > MAX_TOOL_DESCRIPTION_CHARACTERS:
        raise too_long_error("text", len(description), MAX_TOOL_DESCRIPTION_CHARACTERS)
    await change_tool(caller, thing, "described", description=description or None)
    if description:
        return Confirmation(f"{thing.label} is described: {description}")
    return Confirmation(f"{thing.label} has its own description again.")


@tool.verb(
    "remove",
    needs=Right.ENTER,
    also_needs=TOOL_RIGHTS,
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool remove dice",),
)
async def remove_tool(caller: Caller, name: LuaToolName) -> Confirmation:
    """Remove a tool that was written here.

    Args:
        name: the tool.
    """
    thing = await find_tool(caller, name)
    if not creation.is_lua_tool(thing):
        raise Invalid(
            f"{thing.label} was not made here and cannot be removed.",
            hint=next_call("{} disables it for everybody.", "tool disable", name=thing.label),
        )
    await check_may_decide(caller, thing)

    def work(tx: Change) -> None:
        things.delete_thing(tx, things.get_live_thing(tx.conn, thing.id))
        if thing.parent_id == caller.room_id:
            caller.append_notice(tx, f"removed the tool {thing.label}")

    await caller.change(work)
    if thing.parent_id in (caller.room_id, caller.agent.id):
        return Confirmation(
            f"Removed {thing.label}.",
            next_call("{} brings it back.", "restore", name=thing.name),
        )
    return Confirmation(f"Removed {thing.label}.")


async def change_tool(caller: Caller, tool: Thing, action: str, **decisions: Any) -> None:
    """Store decisions about a tool; the room sees who `action` the tool."""

    def work(tx: Change) -> None:
        overrides.set_override(tx, things.get_live_thing(tx.conn, tool.id), **decisions)
        if tool.parent_id != caller.agent.id:
            caller.append_notice(tx, f"{action} the tool {tool.label}")

    await caller.change(work)
