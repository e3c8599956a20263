"""The verbs equip and unequip: tools and data that a room or an agent uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final, TypeAlias

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_BAG_OPTIONS
from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.shorten import shorten_text
from sshwarma.terminal.text import Block, block, line
from sshwarma.tools.call_checks import suggest_equip_again
from sshwarma.verbs.arguments import (
    Arg,
    CompletionRequest,
    Context,
    Flag,
    Option,
    Priority,
    bag_options,
)
from sshwarma.verbs.equipment_changes import check_equip_role, notify_room
from sshwarma.verbs.inventory import list_equippable_tools
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import (
    describe_context,
    describe_lost_context,
    find_context,
    list_bag_ids,
    name_context,
    open_context,
)
from sshwarma.verbs.rights import ContextRight
from sshwarma.verbs.script_notes import describe_scripts
from sshwarma.verbs.tool_reasons import describe_tools_on, explain_blocked_tools
from sshwarma.verbs.views import join_names, view_for_reader
from sshwarma.world import equipment, loadout, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.builtin_containers import GLOBAL_ID
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.ids import HOME_ID
from sshwarma.world.reader import NextCall, Reader, add_next_call, next_call
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


async def complete_equipped(request: CompletionRequest) -> list[Option]:
    """List the things that can be unequipped from the context in `request.given`."""
    caller = request.caller
    whose = request.given[0] if request.given else ""
    room_id = caller.room_id if whose == "room" else None
    agent_id = caller.agent.id if whose == "me" else None
    if room_id is None and agent_id is None:
        room_id, agent_id = caller.room_id, caller.agent.id
    load = await caller.world.loadout(room_id, agent_id)
    return [
        (item.thing.label, item.thing.kind)
        for item in (*load.tools, *load.data)
        if not item.always_on
    ]


async def complete_to_equip(request: CompletionRequest) -> list[Option]:
    """List what can be equipped: namespaces, tools, things from home and the bags."""
    caller = request.caller
    load = await caller.loadout()
    names = [
        item.thing.label for item in await list_equippable_tools(caller, load, MAX_BAG_OPTIONS)
    ]
    home = await caller.world.memoized(
        ("bag things", HOME_ID),
        lambda conn: things.read_children(conn, HOME_ID, "data", "reference"),
    )
    namespaces = sorted({name.split(":", 1)[0] for name in names if ":" in name})
    return [
        *((f"{namespace}:*", "all of it") for namespace in namespaces),
        *((name, "") for name in names),
        *((f"home:{thing.name}", "from home") for thing in home),
        *await bag_options(caller),
    ]


PatternsToEquip: TypeAlias = Annotated[str, Arg(rest=True, complete=complete_to_equip)]
EquippedPatterns: TypeAlias = Annotated[str, Arg(rest=True, complete=complete_equipped)]


_MAX_NAMED: Final = 20
"""Names in one line of a result; the others are counted."""


@dataclass(frozen=True, slots=True)
class EquipResult:
    """The result of an equip or unequip.

    Attributes:
        on: True if it was an equip.
        changed: labels of the things that changed.
        already: labels of the things that needed no change.
        unmatched: patterns that match nothing.
        switched_off: labels of the things that are off now, although something else turns them on.
        broken: which layer scripts will not run, and why.
        note: what cannot be called although it was equipped, or can although it was unequipped.
    """

    on: bool
    context: str
    changed: tuple[str, ...]
    already: tuple[str, ...]
    unmatched: tuple[str, ...]
    switched_off: tuple[str, ...] = ()
    note: str = ""
    broken: str = ""
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(EquipResult)
def draw_equip_result(result: EquipResult, reader: Reader) -> Block:
    """Draw what was equipped or unequipped, and the patterns without a match."""
    word = "Equipped" if result.on else "Unequipped"
    describe = describe_context if result.on else describe_lost_context
    place = describe(result.context)
    lines = (
        [line(f"{word} ", *join_names(result.changed, "tool", _MAX_NAMED), f" {place}.", hang=2)]
        if result.changed
        else []
    )
    if result.switched_off:
        names = join_names(result.switched_off, "tool", _MAX_NAMED)
        place = describe_context(result.context)
        lines.append(line("Switched off ", *names, f" {place}.", hang=2))
    if result.already:
        state = "Already equipped: " if result.on else "Not equipped: "
        lines.append(
            line(("dim", state), *join_names(result.already, "dim", _MAX_NAMED), ".", hang=2)
        )
    if result.unmatched:
        lines.append(
            line(("warn", "Nothing matches "), *join_names(result.unmatched, "warn"), ".", hang=2)
        )
    if not lines:
        place = describe_context(result.context)
        lines.append(line(("dim", f"None of these is equipped {place}.")))
    if result.broken:
        lines.append(line(("warn", result.broken), hang=2))
    if result.note:
        lines.append(line(("warn", add_next_call(result.note, result.next, reader)), hang=2))
    return block(*lines)


@verb(
    "equip",
    mcp_tool="inventory_equip",
    section="Inventory",
    needs=Right.ENTER,
    also_needs=(ContextRight("context"),),
    examples=(
        "/equip room holler:*",
        "/equip me sshwarma:look,who",
        "/equip room home:prompt:style --priority -1",
    ),
    scope=TokenScope.ACT,
)
async def equip(
    caller: Caller, context: Context, patterns: PatternsToEquip, *, priority: Priority | None = None
) -> EquipResult:
    """Equip tools and data in the room or on yourself.

    Nothing is moved or copied: the room or agent can use the thing until it is unequipped.

    For people:
        The context `defaults` is what new rooms begin with; admins set it.

    For models:
        Equip single tools or texts for me, the room or @agent; * stands for any text. A namespace
        is loaded instead.

    Args:
        context: room, me or @agent.
        patterns: names, globs (holler:*) and comma lists (sshwarma:join,leave); a namespace by its
            name; home:NAME from the shared room.
        priority: order among the equipment; a smaller number comes earlier (default 0).
    """
    here, context_thing = await caller.room(), await find_context(caller, context)
    context_name = name_context(caller, context, context_thing)
    globs = equipment.split_patterns(patterns)
    is_open = await caller.visibility_filter()

    def is_takeable(thing: Thing) -> bool:
        """Return whether things in it may be equipped: none from another agent's bag."""
        return is_open(thing) and (
            thing.kind != "agent" or thing.id in (caller.agent.id, context_thing.id)
        )

    def work(tx: Change) -> tuple[EquipResult, list[Thing]]:
        matching, unmatched = _match_patterns(tx.conn, globs, list_bag_ids(caller), is_takeable)
        check_equip_role(tx.conn, caller, context_thing, matching)
        target, _ = open_context(tx, caller, context_thing, matching)
        changed, already = equipment.equip_things(tx, target.id, matching, priority)
        notify_room(tx, caller, context_thing, "equipped", changed)
        result = _make_equip_result(True, context_name, changed, already, unmatched)
        reasons = explain_blocked_tools(tx.conn, caller, here, context_thing, matching)
        note = f"Not all can be called: {reasons.text}. {reasons.ask}" if reasons.text else ""
        return replace(result, note=note.strip(), next=reasons.next), matching

    result, equipped = await caller.change(work)
    texts = [(thing.name, thing.content or "") for thing in equipped if thing.kind == "data"]
    return replace(result, broken=await describe_scripts(caller, texts))


@verb(
    "unequip",
    mcp_tool="inventory_unequip",
    section="Inventory",
    needs=Right.ENTER,
    also_needs=(ContextRight("context"),),
    examples=("/unequip room holler:*", "/unequip room sshwarma:join,leave,go,create"),
    scope=TokenScope.ACT,
)
async def unequip(
    caller: Caller, context: Context, patterns: EquippedPatterns, *, off: Flag = False
) -> EquipResult:
    """Unequip tools and data.

    Removes them from the equipment of the context. A tool that is on there only through its
    namespace is switched off there. The things themselves are kept. Equipping them again restores
    their priority.

    For people:
        The context `defaults` is what new rooms begin with; admins set it.

    For models:
        Unequip tools or texts from a context. A tool that is on there only through its namespace is
        switched off.

    Args:
        context: room, me or @agent.
        patterns: names, globs (holler:*), comma lists and namespaces, as when equipping.
        off: switch them off there, whatever else equips them.
    """
    context_thing = await find_context(caller, context)
    context_name = name_context(caller, context, context_thing)
    globs = equipment.split_patterns(patterns)

    def work(tx: Change) -> tuple[EquipResult, list[Thing]]:
        matching, unmatched = _match_patterns(tx.conn, globs, list_bag_ids(caller))
        target, were_on = open_context(tx, caller, context_thing, matching)
        rows = equipment.read_equipped_rows(tx.conn, [target.id])
        own = {row.thing.id for row in rows if row.equipped}
        wanted = [thing for thing in matching if thing.id in own or not _is_always_on(thing)]
        if not wanted:
            raise Invalid(f"{matching[0].label} is always there and cannot be unequipped.")
        to_switch_off = wanted if off else _find_tools_on_through_namespace(tx.conn, target, wanted)
        switched_off, _ = equipment.switch_off_things(tx, target.id, to_switch_off)
        rest = _leave_out(wanted, to_switch_off)
        changed, already = equipment.unequip_things(tx, target.id, rest)
        changed += [thing for thing in already if thing in were_on]
        already = [thing for thing in already if thing not in were_on]
        if off:
            already = [thing for thing in wanted if thing not in switched_off]
        # A pattern may match everything: report things that are off already only if they are named.
        explicit = {pattern for pattern in globs if "*" not in pattern and "?" not in pattern}
        unchanged = [
            thing for thing in already if thing.label in explicit or thing.name in explicit
        ]
        notify_room(tx, caller, context_thing, "unequipped", changed)
        notify_room(tx, caller, context_thing, "switched off", switched_off)
        result = _make_equip_result(False, context_name, changed, unchanged, unmatched)
        if not changed and not switched_off and (note := _count_off(tx.conn, target, wanted)):
            back = suggest_equip_again(context, patterns)
            result = replace(result, note=note, next=back)
        return replace(result, switched_off=tuple(thing.label for thing in switched_off)), wanted

    result, unequipped = await caller.change(work)
    still_on = await describe_tools_on(caller, context_thing, unequipped)
    if not still_on.text:
        return result
    step = _suggest_switch_off(context, patterns) if still_on.can_switch_off else None
    return replace(result, note=still_on.text, next=step)


def _suggest_switch_off(context: str, patterns: str) -> NextCall:
    return next_call(
        "{} switches them off.", "unequip", context=context, patterns=patterns, off=True
    )


def _count_off(conn: Connection, context: Thing, wanted: list[Thing]) -> str:
    """Return a sentence that counts a change's things that are switched off, or ""."""
    ids = {thing.id for thing in wanted}
    rows = equipment.read_equipped_rows(conn, [context.id])
    count = sum(not row.equipped and row.thing.id in ids for row in rows)
    return f"Switched off there: {count} of {len(wanted)}." if count else ""


def _is_always_on(thing: Thing) -> bool:
    return thing.id == GLOBAL_ID or (thing.kind == "tool" and thing.parent_id == GLOBAL_ID)


def _leave_out(from_things: list[Thing], others: list[Thing]) -> list[Thing]:
    ids = {thing.id for thing in others}  # there may be thousands, and things compare slowly
    return [thing for thing in from_things if thing.id not in ids]


def _find_tools_on_through_namespace(
    conn: Connection, context: Thing, wanted: list[Thing]
) -> list[Thing]:
    """Return the tools that are on in a context without a row of their own."""
    is_room = context.kind == "room"
    load = loadout.compute_loadout(
        conn, context.id if is_room else None, None if is_room else context.id
    )
    own = {row.thing.id for row in equipment.read_equipped_rows(conn, [context.id])}
    through = {item.thing.id for item in load.tools} - own
    return [thing for thing in wanted if thing.id in through]


def _make_equip_result(
    on: bool, context: str, changed: list[Thing], already: list[Thing], unmatched: list[str]
) -> EquipResult:
    return EquipResult(
        on,
        context,
        tuple(thing.label for thing in changed),
        tuple(thing.label for thing in already),
        tuple(unmatched),
    )


def _match_patterns(
    conn: Connection,
    patterns: list[str],
    bag_ids: list[str],
    is_open: Callable[[Thing], bool] = lambda _: True,
) -> tuple[list[Thing], list[str]]:
    """Find the things that patterns match, and list the patterns without a match.

    Things for which `is_open` is false for an ancestor are left out.

    Raises:
        NotFound: if nothing matches any pattern.
    """
    matching: dict[str, Thing] = {}
    unmatched: list[str] = []
    chains = loadout.AncestorCache(conn)
    for pattern in patterns:
        matches = [
            thing
            for thing in equipment.match_things(conn, pattern, bag_ids)
            if all(map(is_open, chains.ancestors_of(thing)))
        ]
        if not matches:
            unmatched.append(pattern)
        matching.update((thing.id, thing) for thing in matches)
    if not matching:
        known = (
            thing.label
            for thing in equipment.match_things(conn, "*", bag_ids)
            if all(map(is_open, chains.ancestors_of(thing)))
        )
        near = suggest_near_names(unmatched[0], known) if unmatched else ""
        raise NotFound(
            f"Nothing matches {shorten_text(', '.join(unmatched))}.",
            hint=near or next_call("{} shows what can be equipped.", "inv show", inventory="all"),
        )
    return list(matching.values()), unmatched
