"""The verbs load and unload, for namespaces of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlalchemy import Connection

from sshwarma.common.shorten import count_rest, join_with_rest
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.tools.call_checks import suggest_load_again
from sshwarma.verbs.arguments import Context, Flag
from sshwarma.verbs.equipment_changes import check_equip_role, notify_room
from sshwarma.verbs.namespace import (
    LoadedNamespace,
    UnloadedNamespace,
    all_listed,
)
from sshwarma.verbs.namespace_views import NamespaceSummary
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import (
    describe_context,
    describe_lost_context,
    find_context,
    name_context,
    open_context,
)
from sshwarma.verbs.rights import ContextRight
from sshwarma.verbs.tool_reasons import (
    MAX_NAMED_TOOLS,
    ToolReasons,
    describe_tools_on,
    explain_blocked_tools,
    read_tools_of,
)
from sshwarma.verbs.views import join_names, view_for_reader
from sshwarma.world import equipment, namespaces
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.builtin_containers import GLOBAL_ID
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound, Unavailable
from sshwarma.world.namespaces import Namespace
from sshwarma.world.reader import Hint, NextCall, Reader, add_next_call, next_call
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A namespace that was loaded, unloaded or switched off.

    Attributes:
        room: id of the namespace.
        context: room or agent that it was loaded on, as it was typed.
        loaded: whether its tools can be called through this.
        changed: labels of the namespaces that changed, including those inside it.
        tools: its tools that can be called now, by the names that the reader calls; empty after an
            unload.
        note: what is unusual about the result; "" if nothing is.
        switched_off: whether it is off whatever else loads it.
    """

    room: str
    context: str
    loaded: bool
    changed: tuple[str, ...]
    tools: tuple[str, ...]
    note: str
    switched_off: bool = False
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(LoadResult)
def draw_load_result(result: LoadResult, reader: Reader) -> Block:
    """Draw the namespaces that were loaded or unloaded, and the tools now on."""
    word = "Loaded" if result.loaded else "Unloaded"
    lines: list[Line] = []
    if result.changed:
        names = join_names(result.changed, "thing")
        noun = "namespace" if len(result.changed) == 1 else "namespaces"
        is_there = result.loaded or result.switched_off
        place = (describe_context if is_there else describe_lost_context)(result.context)
        word = "Switched off" if result.switched_off else word
        lines.append(line(f"{word} {noun} ", *names, f" {place}.", hang=2))
    if result.tools:
        lines.append(
            line("Its tools: ", *join_names(result.tools[:MAX_NAMED_TOOLS], "tool"), hang=2)
        )
        if rest := count_rest(len(result.tools) - MAX_NAMED_TOOLS):
            lines.append(line(("dim", rest)))
    if result.note:
        text = add_next_call(result.note, result.next, reader)
        lines.insert(0 if not result.changed else len(lines), line(("warn", text), hang=2))
    return block(*lines)


@verb(
    "load",
    section="Inventory",
    needs=Right.ENTER,
    also_needs=(ContextRight("context"),),
    namespace="global",
    tool="load_room",
    rarely_used=("include_children",),
    examples=("/load git", "/load git room", "/load requirement --include-children"),
    scope=TokenScope.ACT,
)
async def load(
    caller: Caller,
    room: UnloadedNamespace,
    context: Context = "me",
    *,
    include_children: Flag = False,
) -> LoadResult:
    """Load a namespace, so that its tools can be used.

    Loads it for you in every room, or in this room for everybody. Nobody is moved.
    This is the same as equipping the namespace. Refused if it is switched off there.

    For models:
        Load a namespace (room) of tools.

        context: me, room or @agent

    Args:
        room: name of the namespace, such as git.
        context: me, room or @agent (default: me).
        include_children: include the namespaces inside it, at every depth.
    """
    space = await _find_namespace(caller, room)
    await _check_available(caller, space)
    here, context_thing = await caller.room(), await find_context(caller, context)
    context = name_context(caller, context, context_thing)
    if space.thing.id == GLOBAL_ID and not await _is_switched_off(caller, context_thing, space):
        return _keep_global(context, "global is always loaded.")

    def work(tx: Change) -> tuple[list[Thing], ToolReasons]:
        targets = _list_targets(tx, space, include_children)
        check_equip_role(tx.conn, caller, context_thing, targets)
        target, _ = open_context(tx, caller, context_thing, targets)
        changed, _ = equipment.equip_things(tx, target.id, targets)
        reasons = explain_blocked_tools(tx.conn, caller, here, context_thing, targets)
        if (reasons.has_off_switch or reasons.lacks_role) and not reasons.usable:
            raise Conflict(
                f"{space.id} was not loaded, because none of its tools could be called:"
                f" {reasons.text}.",
                hint=reasons.ask or (() if reasons.next is None else (reasons.next,)),
            )
        notify_room(tx, caller, context_thing, "loaded", changed)
        return changed, reasons

    changed, reasons = await caller.change(work)
    notes = [] if changed else [f"{space.id} is already loaded {describe_context(context)}."]
    if reasons.text:
        notes.append(f"Not all of its tools can be called: {reasons.text}. {reasons.ask}".strip())
    loaded = {thing.label for thing in changed}
    if space.id in loaded:  # with what loads with it
        loaded |= {tool.label.partition(":")[0] for tool in reasons.usable}
    return LoadResult(
        room=space.id,
        context=context,
        loaded=True,
        changed=tuple(sorted(loaded)),
        tools=tuple(caller.reader.name_tool(tool.label) for tool in reasons.usable),
        note=" ".join(notes),
        next=reasons.next,
    )


def _keep_global(context: str, note: str) -> LoadResult:
    return LoadResult(GLOBAL_ID, context, loaded=True, changed=(), tools=(), note=note)


async def _check_available(caller: Caller, space: Namespace) -> None:
    """Raise Unavailable, with the reason, if a namespace cannot be loaded now."""
    summary = next((item for item in await all_listed(caller) if item.id == space.id), None)
    if summary is not None and not summary.available:
        raise Unavailable(
            f"{space.id} cannot be loaded: it {_explain_missing_state(summary)}.",
            hint=_suggest_next_step(summary),
        )


async def _find_namespace(caller: Caller, name: str) -> Namespace:
    """Find a namespace by the name that a caller typed.

    Raises:
        NotFound: if it does not exist; another message says that the name is one of a room.
    """
    try:
        return await caller.world.store.read(
            lambda conn: namespaces.find_namespace(conn, name, caller.room_id, titled=True)
        )
    except NotFound as error:
        try:
            room = await caller.find_room(name.strip().removeprefix("room://"))
        except NotFound:
            raise error from None
        raise NotFound(
            f"{room.name} is a room to stand in, not a namespace of tools.",
            hint="Tools in a room are on for everybody in it. Join the room to use them.",
        ) from None


def _list_targets(tx: Change, space: Namespace, include_children: bool) -> list[Thing]:
    inside = namespaces.read_descendants(tx.conn, space.thing) if include_children else []
    return [space.thing, *inside]


def _explain_missing_state(namespace: NamespaceSummary) -> str:
    match namespace.missing:
        case ():
            return "is not available now" if namespace.enabled else "is disabled"
        case (single,):
            return f"requires the state {single}, which is not set here"
        case several:
            return f"requires the states {', '.join(several)}, which are not set here"


def _suggest_next_step(namespace: NamespaceSummary) -> tuple[Hint, ...]:
    """Suggest how to get the states that a namespace lacks."""
    manual_states = [state for state in namespace.missing if not state.startswith("mcp:")]
    if manual_states:
        return (
            next_call("{} sets it.", "state add", name=manual_states[0]),
            next_call("{} shows the states that are set.", "state list"),
        )
    if namespace.missing:
        server = namespace.missing[0].removeprefix("mcp:")
        return (next_call(f"{{}} shows whether {server} is up.", "mcp list"),)
    servers = next_call("{} shows which servers are up.", "mcp list")
    return (servers, next_call("{} shows what could be loaded.", "namespaces"))


@verb(
    "unload",
    section="Inventory",
    needs=Right.ENTER,
    also_needs=(ContextRight("context"),),
    namespace="global",
    tool="unload_room",
    rarely_used=("context", "include_children", "off"),
    examples=("/unload git", "/unload git room", "/unload git room --off"),
    scope=TokenScope.ACT,
)
async def unload(
    caller: Caller,
    room: LoadedNamespace,
    context: Context = "me",
    *,
    include_children: Flag = False,
    off: Flag = False,
) -> LoadResult:
    """Unload a namespace.

    Removes it from the equipment of the context. If something else loads it, it stays on. With off
    it is switched off there until it is loaded again.

    For models:
        Unload a namespace (room) of tools.

    Args:
        room: name of the namespace, such as git.
        context: me, room or @agent (default: me).
        include_children: include the namespaces inside it, at every depth.
        off: switch it off there; what its room has loaded stays on for an agent.
    """
    space = await _find_namespace(caller, room)
    if space.thing.id == GLOBAL_ID:
        return _keep_global(context, "global is always loaded; its tools stay.")
    context_thing = await find_context(caller, context)
    place = name_context(caller, context, context_thing)

    def work(tx: Change) -> tuple[list[Thing], list[Thing]]:
        targets = _list_targets(tx, space, include_children)
        set_rows = equipment.switch_off_things if off else equipment.unequip_things
        target, were_on = open_context(tx, caller, context_thing, targets)
        changed, _ = set_rows(tx, target.id, targets)
        changed += [thing for thing in were_on if thing not in changed]
        action = "switched off" if off else "unloaded"
        notify_room(tx, caller, context_thing, action, changed)
        return changed, targets

    changed, targets = await caller.change(work)
    is_off = not changed and await _is_switched_off(caller, context_thing, space)
    still_on = await describe_tools_on(caller, context_thing, targets)
    still_off = "" if off else await _describe_still_off(caller, context_thing, changed)
    notes = [still_on.text, still_off]
    step = next_call("{} switches it off.", "unload", room=space.id, context=context, off=True)
    next_step = step if still_on.can_switch_off and not off else None
    next_step = suggest_load_again(context, space.id) if is_off else next_step
    if not changed:
        state = "already switched off" if off else "switched off" if is_off else "not loaded"
        notes.insert(0, f"{space.id} is {state} {describe_context(place)}.")
    return LoadResult(
        room=space.id,
        context=place,
        loaded=False,
        changed=tuple(sorted(thing.label for thing in changed)),
        tools=(),
        note=" ".join(filter(None, notes)),
        switched_off=off,
        next=next_step,
    )


async def _is_switched_off(caller: Caller, context: Thing, space: Namespace) -> bool:
    """Return whether a row of a context, or of everywhere, switches a namespace off."""
    context_ids = (context.id, equipment.agent_in_room_id(context.id, caller.room_id))
    rows = await caller.world.store.read(
        lambda conn: equipment.read_equipped_rows(conn, context_ids)
    )
    return any(row.thing.id == space.thing.id and not row.equipped for row in rows)


async def _describe_still_off(caller: Caller, context: Thing, unloaded: Sequence[Thing]) -> str:
    """Name the tools that stay switched off when a context loads them again."""

    def read(conn: Connection) -> list[Thing]:
        tool_ids = {tool.id for tool in read_tools_of(conn, unloaded)}
        rows = equipment.read_equipped_rows(conn, [context.id])
        return [row.thing for row in rows if not row.equipped and row.thing.id in tool_ids]

    off = [caller.reader.name_tool(tool.label) for tool in await caller.world.store.read(read)]
    if not off:
        return ""
    return f"These tools stay switched off: {join_with_rest(off, MAX_NAMED_TOOLS)}."
