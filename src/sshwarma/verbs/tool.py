"""Tools: making them in Lua, trying them, and deciding about those of others."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from sshwarma.common.limits import (
    MAX_PRINTED_LINES,
    MAX_SHOWN_AVAILABLE_TOOLS,
    MAX_TOOL_DESCRIPTION_CHARACTERS,
)
from sshwarma.lua_tools import creation
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.lua_tools.provider import LuaToolProvider
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.tools.arguments import parse_arguments
from sshwarma.tools.call import Tools
from sshwarma.tools.names import NameTable, check_tool_name, model_tool_name
from sshwarma.verbs.arguments import Arg, ToolName
from sshwarma.verbs.bags import EditDraft
from sshwarma.verbs.examine import ThingDetails, read_thing_details
from sshwarma.verbs.inventory import list_equippable_tools
from sshwarma.verbs.namespaces import check_may_create
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import find_thing, require_maker_or_admin
from sshwarma.verbs.views import Confirmation, draw_columns, view
from sshwarma.world import namespaces, overrides, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound, Unavailable
from sshwarma.world.loadout import GLOBAL_NAMESPACE, LoadoutItem
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class ToolListItem:
    name: str
    description: str
    made_by: str  # lua, or the namespace that carries it out
    equipped: bool
    obstacle: str  # why it cannot be used now
    title: str


@dataclass(frozen=True, slots=True)
class ToolList:
    pattern: str
    tools: tuple[ToolListItem, ...]
    cut: bool


@view(ToolList)
def draw_tool_list(result: ToolList) -> Block:
    if not result.tools:
        return block(line(f"There is no tool that {result.pattern} names."))
    lines: list[Line] = [line(("heading", "Tools:"))]
    lines += draw_columns(
        (
            ("tool", f"✓ {tool.name}")
            if tool.equipped and not tool.obstacle
            else ("dim", f"{'✗' if tool.obstacle else '○'} {tool.name}"),
            ("dim", f"[{', '.join(filter(None, (tool.made_by, tool.obstacle)))}]"),
            tool.title or tool.description,
        )
        for tool in result.tools
    )
    if result.cut:
        lines.append(line("  ", ("dim", f"… only the first {MAX_SHOWN_AVAILABLE_TOOLS} are shown")))
    return block(*lines)


@dataclass(frozen=True, slots=True)
class SavedTool:
    """A tool somebody wrote, as it is now."""

    name: str
    made: bool
    size: int
    description: str
    input_schema: dict[str, Any]


@view(SavedTool)
def draw_saved_tool(result: SavedTool) -> Block:
    what = "Made" if result.made else "Changed"
    arguments = ", ".join(result.input_schema["properties"]) or "none"
    return block(
        line(f"{what} ", ("tool", result.name), f" ({result.size} bytes). Arguments: {arguments}."),
        line(("dim", f"Models call it {model_tool_name(result.name)}. Try it: "),
             ("verb", f"/tool test {result.name}"), hang=2),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolTrial:
    """A trial of a tool; nobody else saw it."""

    tool: str
    ok: bool
    text: str
    structured: Any
    printed: tuple[str, ...]
    seconds: float


@view(ToolTrial)
def draw_tool_trial(trial: ToolTrial) -> Block:
    style, mark = ("ok", "✓") if trial.ok else ("error", "✗")
    lines = [
        line((style, mark), f" {trial.tool} {trial.seconds:.2f}s, seen by you alone"),
        *text_lines(trial.text, indent=2),
    ]
    if trial.printed:
        lines.append(line(("dim", "  printed:")))
        lines += [line("  ", ("dim", text), hang=2) for text in trial.printed[:MAX_PRINTED_LINES]]
    if len(trial.printed) > MAX_PRINTED_LINES:
        lines.append(line("  ", ("dim", f"… {len(trial.printed) - MAX_PRINTED_LINES} more lines")))
    return block(*lines)


@verb(
    "tool",
    group="Building",
    needs=Right.ENTER,
    tool=False,
    awaits=("new",),
    examples=(
        "/tool list",
        "/tool show sshwarma:look",
        "/tool new dice = return math.random(6)",
        "/tool test dice",
        "/tool disable dice",
        "/tool describe dice = Rolls one die.",
    ),
    scope=TokenScope.BUILD,
)
async def tool(
    caller: Caller,
    action: Literal[
        "list", "show", "new", "edit", "test", "enable", "disable", "describe", "remove"
    ] = "list",
    name: ToolName | None = None,
    text: Annotated[str, Arg("text", rest=True, particle="=")] | None = None,
) -> ToolList | ThingDetails | SavedTool | EditDraft | ToolTrial | Confirmation:
    """Make tools in Lua, try them, and decide about tools

    A tool made here lies in this room: whoever is here has it, models too. me:NAME makes one of
    your own, which you bring along; NAMESPACE:NAME puts it into a namespace that you made, which
    is made if there is none; global:NAME is for administrators, and on everywhere. From a shell:
    ssh HOST tool new NAME < script.lua
    /help scripts tells how a script is written. disable takes a tool from everybody at once,
    describe gives it other words; neither changes the tool itself.

    action: list, show, new (makes one, or gives it another script), edit, test (only you see what
        it gives), enable, disable, describe, remove.
    name: the tool; for list, a pattern such as den:*.
    text: for new, the script; for test, the arguments as for /run; for describe, the words, none
        to take them back.
    """
    if action == "list":
        return await _list_tools(caller, name)
    if name is None:
        raise Invalid(f"Say which tool to {action}.", hint="/tool list names them.")
    match action:
        case "new":
            return await _create_tool(caller, name, text)
        case "edit":
            return await _edit_tool(caller, name)
    found = await _find_tool(caller, name)
    match action:
        case "show":
            return await read_thing_details(caller, found)
        case "test":
            return await _test_tool(caller, found, text or "")
        case "enable" | "disable":
            return await _enable_tool(caller, found, on=action == "enable")
        case "describe":
            return await _describe_tool(caller, found, text)
        case _:
            return await _remove_tool(caller, found)


async def _list_tools(caller: Caller, pattern: str | None) -> ToolList:
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    on = {item.thing.id for item in load.tools}
    more = await list_equippable_tools(caller, load, MAX_SHOWN_AVAILABLE_TOOLS * 10)
    items: list[LoadoutItem] = [*load.tools, *more]
    if pattern is None:
        bags = (caller.room_id, caller.agent.id)
        items = [i for i in items if i.thing.id in on or i.thing.parent_id in bags]
    else:
        glob = pattern.replace("[", "[[]")
        items = [i for i in items if fnmatchcase(i.thing.label, glob) or i.thing.name == pattern]
    shown = sorted(items, key=lambda item: item.thing.label)
    return ToolList(
        pattern or "this room",
        tuple(
            ToolListItem(
                item.thing.label,
                item.thing.description.split("\n", 1)[0],
                "lua" if creation.is_lua_tool(item.thing) else item.namespace,
                item.thing.id in on,
                item.obstacle,
                item.title,
            )
            for item in shown[:MAX_SHOWN_AVAILABLE_TOOLS]
        ),
        len(shown) > MAX_SHOWN_AVAILABLE_TOOLS,
    )


async def _create_tool(caller: Caller, name: str, text: str | None) -> SavedTool:
    place, plain = await _resolve_new_tool(caller, name)
    if not (text or "").strip():
        raise Invalid(
            f"Say what {plain} does.",
            hint=f"As in /tool new {name} = return 'hello', or from a shell: "
            f"ssh HOST tool new {name} < script.lua",
        )
    source = text or ""
    size = len(source.encode())
    if size > caller.limits.thing_bytes:
        raise Invalid(f"That is {size} bytes; a tool has at most {caller.limits.thing_bytes}.")
    declaration = parse_declaration(source)
    await _require_lua(caller).check(plain, source)

    def work(tx: Change) -> tuple[Thing, bool]:
        if place is None:
            bag = namespaces.create_namespace(tx, name.rpartition(":")[0], caller.agent.id)
        else:
            bag = things.get_live_thing(tx.conn, place.id)
        made = creation.store_tool(tx, bag, plain, source, declaration, caller.agent.id)
        if bag.id == caller.room_id:
            caller.tell(tx, f"{'made' if made[1] else 'changed'} the tool {made[0].label}")
        return made

    thing, made = await caller.change(work)
    return SavedTool(thing.label, made, size, declaration.description, declaration.input_schema)


async def _resolve_new_tool(caller: Caller, name: str) -> tuple[Thing | None, str]:
    """Where a tool of that name is to lie, if the caller may put one there, and its bare name;
    None if that is a namespace which is still to be made."""
    space, _, bare = name.rpartition(":")
    plain = check_tool_name(bare)
    room = await caller.room()
    if space in ("", "room", room.name):
        wanted = caller.room_id
    elif space in ("me", caller.agent.name):
        wanted = caller.agent.id
    else:
        try:
            found = await caller.world.store.read(
                lambda conn: namespaces.find_namespace(conn, space)
            )
        except NotFound:
            await check_may_create(caller, space)
            return None, plain
        wanted = found.thing.id
    place = await caller.world.store.read(lambda conn: things.get_live_thing(conn, wanted))
    if place.kind not in ("room", "agent", "toolset") and place.id != GLOBAL_NAMESPACE:
        raise Invalid(f"{place.label} has tools of its own, and takes none that people write.")
    await _check_may_change(caller, place)
    return place, plain


async def _edit_tool(caller: Caller, name: str) -> EditDraft:
    try:
        found = await _find_tool(caller, name)
    except NotFound:
        check_tool_name(name.rpartition(":")[2])
        return EditDraft(name, "", f"/tool new {name} = ")
    if not creation.is_lua_tool(found):
        raise Invalid(
            f"{found.label} is not a Lua tool.",
            hint="/tool describe and /tool disable work on every tool.",
        )
    await _check_may_decide(caller, found)
    short = {caller.room_id: found.name, caller.agent.id: f"me:{found.name}"}
    typed, source = short.get(found.parent_id or "", found.label), found.content or ""
    return EditDraft(found.label, source, f"/tool new {typed} = {source}")


async def _test_tool(caller: Caller, found: Thing, text: str) -> ToolTrial:
    if not creation.is_lua_tool(found):
        raise Invalid(f"{found.label} is not a Lua tool.", hint=f"/run {found.label} calls it.")
    await _check_may_decide(caller, found)
    tools = caller.world.part(Tools)
    if tools is None:
        raise Unavailable("This server calls no tools.")
    how, result, seconds = await tools.test(caller, found, parse_arguments(found, text))
    return ToolTrial(
        found.label, how == "result", result.text, result.structured, result.printed, seconds
    )


async def _enable_tool(caller: Caller, found: Thing, *, on: bool) -> Confirmation:
    await _check_may_decide(caller, found)
    word = "enabled" if on else "disabled"
    await _change_tool(caller, found, word, enabled=on)
    return Confirmation(f"{found.label} is {word}.")


async def _describe_tool(caller: Caller, found: Thing, text: str | None) -> Confirmation:
    if text is None:
        raise Invalid(
            "Say the words.",
            hint=f"As in /tool describe {found.label} = Rolls dice. Nothing after = takes them "
            "back.",
        )
    await _check_may_decide(caller, found)
    words = " ".join(text.split())
    if len(words) > MAX_TOOL_DESCRIPTION_CHARACTERS:
        raise Invalid(
            f"That has {len(words)} characters; at most {MAX_TOOL_DESCRIPTION_CHARACTERS} fit."
        )
    await _change_tool(caller, found, "described", description=words or None)
    if words:
        return Confirmation(f"{found.label} is described: {words}")
    return Confirmation(f"{found.label} is described as it describes itself.")


async def _remove_tool(caller: Caller, found: Thing) -> Confirmation:
    if not creation.is_lua_tool(found):
        raise Invalid(
            f"{found.label} was not made here and cannot be removed.",
            hint=f"/tool disable {found.label} takes it from everybody.",
        )
    await _check_may_decide(caller, found)

    def work(tx: Change) -> None:
        things.delete_thing(tx, things.get_live_thing(tx.conn, found.id))
        if found.parent_id == caller.room_id:
            caller.tell(tx, f"removed the tool {found.label}")

    await caller.change(work)
    if found.parent_id in (caller.room_id, caller.agent.id):
        return Confirmation(f"Removed {found.label}. /restore {found.name} brings it back.")
    return Confirmation(f"Removed {found.label}.")


async def _change_tool(caller: Caller, found: Thing, told: str, **decisions: Any) -> None:
    def work(tx: Change) -> None:
        overrides.set_override(tx, things.get_live_thing(tx.conn, found.id), **decisions)
        if found.parent_id != caller.agent.id:
            caller.tell(tx, f"{told} the tool {found.label}")

    await caller.change(work)


async def _find_tool(caller: Caller, name: str) -> Thing:
    """A tool by any of its names: one the caller has here, or knows of."""
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    item = NameTable(load.tools).find(name)
    if item is not None:
        tool_id = item.thing.id
        return await caller.world.store.read(lambda conn: things.get_live_thing(conn, tool_id))
    found = await find_thing(caller, name)
    if found.kind != "tool":
        raise Invalid(f"{found.label} is a {found.kind}, not a tool.")
    return found


async def _check_may_decide(caller: Caller, found: Thing) -> None:
    """Go on only for who may change a tool: who may change what it lies in."""
    place_id = found.parent_id or "world"
    await _check_may_change(
        caller, await caller.world.store.read(lambda conn: things.get_live_thing(conn, place_id))
    )


async def _check_may_change(caller: Caller, place: Thing) -> None:
    """Go on only for builders of a room, the agent itself, who made a namespace; and, wherever it
    is, for administrators."""
    if place.kind == "room":
        await caller.require(Right.BUILD, await caller.world.room(place.id))
        return
    if place.kind == "toolset":
        maker = caller.world.agents.name_of(place.created_by)
        words = f"{place.label} was made by {maker}: they or an administrator change its tools."
        await require_maker_or_admin(caller, place, words)
    elif place.id != caller.agent.id:
        await caller.require(Right.ADMIN)


def _require_lua(caller: Caller) -> LuaToolProvider:
    lua = caller.world.part(LuaToolProvider)
    if lua is None:
        raise Unavailable("This server runs no Lua.")
    return lua
