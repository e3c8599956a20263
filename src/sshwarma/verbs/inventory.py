"""The verbs inv, equip and unequip: contents of bags, and equipment of rooms and agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_SHOWN_AVAILABLE_TOOLS
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.verbs.arguments import (
    MAX_BAG_OPTIONS,
    Arg,
    CompletionRequest,
    Context,
    Option,
    Priority,
    agent_options,
    bag_options,
)
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import list_bag_ids, resolve_context, resolve_readable_context
from sshwarma.verbs.views import draw_columns, join_names, view
from sshwarma.world import equipment, loadout, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.loadout import Loadout, LoadoutItem
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

MAX_NOTICE_NAMES = 8
"""Names in the notice of a change; the rest are counted."""

BUILT_IN_NAMESPACES = ("internal", "global")


async def complete_inventory(request: CompletionRequest) -> list[Option]:
    """Whose inventory to show: the room's, the caller's, everything, or an agent's."""
    whose = [("room", "this room"), ("me", "yourself"), ("all", "")]
    return [*whose, *agent_options(request.caller, "@")]


async def complete_equipped(request: CompletionRequest) -> list[Option]:
    """Things that are equipped here."""
    caller = request.caller
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    return [(item.thing.label, item.thing.kind) for item in (*load.tools, *load.data)]


async def complete_to_equip(request: CompletionRequest) -> list[Option]:
    """Things that could be equipped here: namespaces, tools, things from home and from the bags."""
    caller = request.caller
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    names = [
        item.thing.label for item in await list_equippable_tools(caller, load, MAX_BAG_OPTIONS)
    ]
    home = await caller.world.memoized(
        ("bag things", "home"), lambda conn: things.read_children(conn, "home", "data", "reference")
    )
    namespaces = sorted({name.split(":", 1)[0] for name in names if ":" in name})
    return [
        *((f"{namespace}:*", "all of it") for namespace in namespaces),
        *((name, "") for name in names),
        *((f"home:{thing.name}", "from home") for thing in home),
        *await bag_options(caller),
    ]


InventoryName: TypeAlias = Annotated[str, Arg(complete=complete_inventory)]
"""`room`, `me`, `all`, or `@agent`."""

PatternsToEquip: TypeAlias = Annotated[str, Arg(rest=True, complete=complete_to_equip)]
EquippedPatterns: TypeAlias = Annotated[str, Arg(rest=True, complete=complete_equipped)]


@dataclass(frozen=True, slots=True)
class EquippedItem:
    name: str
    kind: str
    namespace: str  # internal, global, or the MCP server or toolset it comes from
    by: str  # room, agent, always
    priority: float
    usable: bool
    status: str  # available, or why it cannot be used


@dataclass(frozen=True, slots=True)
class BagItem:
    name: str
    kind: str
    description: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """Equipment, the contents of the bag, and what else could be equipped (None: not asked)."""

    of: str
    equipped: tuple[EquippedItem, ...]
    bag_title: str
    bag: tuple[BagItem, ...]
    available: tuple[EquippedItem, ...] | None = None
    available_cut: bool = False
    whose: str = "yours"  # what an agent has on itself: yours, or bob's


@view(Inventory)
def draw_inventory(inventory: Inventory) -> Block:
    lines: list[Line] = [line(("heading", "Equipped:"))]
    lines += draw_columns(_draw_equipped_row(item, inventory.whose) for item in inventory.equipped)
    if not inventory.equipped:
        lines.append(line("  ", ("dim", "nothing")))
    lines += [line(), line(("heading", f"{inventory.bag_title}:"))]
    lines += draw_columns(
        (
            ("thing", f"· {item.name}"),
            ("dim", f"[{item.kind}]" if item.kind != "data" else ""),
            item.description,
        )
        for item in inventory.bag
    )
    if not inventory.bag:
        lines.append(line("  ", ("dim", "nothing" if inventory.whose == "yours" else "private")))
    if inventory.available is not None:
        lines += [line(), line(("heading", "Available to equip:"))]
        lines += draw_columns(
            (
                ("tool", f"○ {item.name}"),
                ("dim", _format_source([item.namespace] + ([] if item.usable else [item.status]))),
            )
            for item in inventory.available
        )
        if not inventory.available:
            lines.append(line("  ", ("dim", "nothing")))
        if inventory.available_cut:
            lines.append(
                line("  ", ("dim", f"… only the first {MAX_SHOWN_AVAILABLE_TOOLS} are shown"))
            )
    return block(*lines)


def _draw_equipped_row(item: EquippedItem, whose: str) -> tuple[Span, Span]:
    notes: list[str] = []
    if item.namespace not in BUILT_IN_NAMESPACES and item.kind == "tool":
        notes += [item.namespace, item.status]
    elif not item.usable:
        notes.append(item.status)
    if item.kind != "tool":
        notes.append(item.kind)
        if item.namespace == "home":
            notes.append("home")
    if item.by == "agent":
        notes.append(whose)
    mark = ("tool", f"✓ {item.name}") if item.usable else ("dim", f"✗ {item.name}")
    return mark, ("dim", _format_source(notes))


def _format_source(notes: Iterable[str]) -> str:
    text = ", ".join(notes)
    return f"[{text}]" if text else ""


@verb(
    "inv",
    section="Inventory",
    needs=Right.ENTER,
    aliases=("inventory", "i"),
    tool="inventory",
    examples=("/inv", "/inv me", "/inv all", "/inv @qwen"),
    default=True,
)
async def inv(caller: Caller, what: InventoryName | None = None) -> Inventory:
    """Query inventory.

    Without an argument: what is equipped for you here, and the bag of the room. `room`: the
    equipment and bag of the room. `me` or `@agent`: those of an agent. `all`: the same as without
    an argument, and what else could be equipped.

    Args:
        what: room, me, all or @agent (default: your equipment here and the bag of the room).
    """
    world, whose = caller.world, "yours"
    if what in (None, "all", "room"):
        room = await caller.room()
        agent_id = None if what == "room" else caller.agent.id
        load = await world.loadout(room.id, agent_id)
        bag = await world.memoized(
            ("bag", room.id),
            lambda conn: things.read_children(conn, room.id, "data", "reference", "tool"),
        )
        of, title = room.name, "Room contents"
    else:
        context = await resolve_readable_context(caller, what or "me")
        load = await world.loadout(None, context.id)
        load = Loadout(tuple(i for i in load.tools if i.source != "always"), load.data)
        own = context.id == caller.agent.id
        if not own:
            await caller.require(Right.ENTER)
        bag = (
            await world.memoized(
                ("bag", context.id), lambda conn: things.read_children(conn, context.id)
            )
            if own
            else []
        )
        of, title = context.name, "Your bag" if own else f"{context.name}'s bag"
        whose = "yours" if own else f"{context.name}'s"
    available = None
    if what == "all":
        available = await list_equippable_tools(caller, load, MAX_SHOWN_AVAILABLE_TOOLS + 1)
    return Inventory(
        of=of,
        equipped=tuple(_make_equipped_item(item) for item in (*load.tools, *load.data)),
        bag_title=title,
        bag=tuple(
            BagItem(thing.name, thing.kind, thing.description)
            for thing in bag
            if thing.metadata.get("role") not in ("state", "memory")
        ),
        available=None
        if available is None
        else tuple(
            sorted(
                map(_make_equipped_item, available[:MAX_SHOWN_AVAILABLE_TOOLS]),
                key=lambda item: (item.namespace in BUILT_IN_NAMESPACES, item.namespace, item.name),
            )
        ),
        available_cut=available is not None and len(available) > MAX_SHOWN_AVAILABLE_TOOLS,
        whose=whose,
    )


async def list_equippable_tools(caller: Caller, load: Loadout, limit: int) -> list[LoadoutItem]:
    """Tools that the caller could equip and that are not on yet, at most `limit`."""
    on = frozenset(item.thing.id for item in load.tools)
    is_open = await caller.visibility_filter()
    held = await caller.world.states(caller.room_id)
    return await caller.world.memoized(
        ("available", on, limit, caller.agent.id, caller.room_id),
        lambda conn: loadout.find_equippable_tools(conn, on, limit, is_open, held),
    )


@dataclass(frozen=True, slots=True)
class EquipResult:
    """Names that a request changed, names that needed no change, and patterns without a match."""

    on: bool
    context: str
    changed: tuple[str, ...]
    already: tuple[str, ...]
    unmatched: tuple[str, ...]


@view(EquipResult)
def draw_equip_done(done: EquipResult) -> Block:
    word = "Equipped" if done.on else "Unequipped"
    lines = [line(f"{word} ", *join_names(done.changed, "tool"), hang=2)] if done.changed else []
    if done.already:
        state = "Already equipped: " if done.on else "Not equipped: "
        lines.append(line(("dim", state), *join_names(done.already, "dim"), hang=2))
    if done.unmatched:
        lines.append(
            line(("warn", "Nothing matches "), *join_names(done.unmatched, "warn"), hang=2)
        )
    return block(*lines)


@verb(
    "equip",
    section="Inventory",
    needs=Right.ENTER,
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

    Args:
        context: room, me or @agent.
        patterns: names, globs (holler:*) and comma lists (sshwarma:join,leave); a namespace by its
            name; home:NAME from the shared room.
        priority: order among the equipment; a smaller number comes earlier (default 0).
    """
    context_thing = await resolve_context(caller, context)
    wanted = equipment.split_patterns(patterns)
    is_open = await caller.visibility_filter()

    def work(tx: Change) -> EquipResult:
        found, unmatched = _match_patterns(tx.conn, wanted, list_bag_ids(caller), is_open)
        changed, already = equipment.equip_things(tx, context_thing.id, found, priority)
        _notify_room(tx, caller, context_thing, "equipped", changed)
        return _make_equip_result(True, context, changed, already, unmatched)

    return await caller.change(work)


@verb(
    "unequip",
    section="Inventory",
    needs=Right.ENTER,
    examples=("/unequip room holler:*", "/unequip room sshwarma:join,leave,go,create"),
    scope=TokenScope.ACT,
)
async def unequip(caller: Caller, context: Context, patterns: EquippedPatterns) -> EquipResult:
    """Unequip tools and data.

    The things themselves are kept. Equipping them again restores their priority.

    Args:
        context: room, me or @agent.
        patterns: names, globs (holler:*), comma lists and namespaces, as when equipping.
    """
    context_thing = await resolve_context(caller, context)
    wanted = equipment.split_patterns(patterns)

    def work(tx: Change) -> EquipResult:
        found, unmatched = _match_patterns(tx.conn, wanted, list_bag_ids(caller))
        room_id = context_thing.id if context_thing.kind == "room" else None
        agent_id = None if room_id else context_thing.id
        load = loadout.compute_loadout(tx.conn, room_id, agent_id)
        chains = loadout.AncestorCache(tx.conn)
        through = [item.thing.id for item in load.tools if not item.always_on]
        for item in load.tools:
            if (
                item.source == "always" and not item.always_on
            ):  # a namespace may be on by itself, too
                through += [link.id for link in chains.ancestors_of(item.thing)]
        always = {item.thing.id for item in load.tools if item.always_on}
        fixed = [thing for thing in found if thing.id in always]
        if fixed and len(fixed) == len(found):
            raise Invalid(f"{fixed[0].label} is always there and cannot be unequipped.")
        # A pattern may match everything: report things that are off already only if they are named.
        explicit = {pattern for pattern in wanted if "*" not in pattern and "?" not in pattern}
        changed, already = equipment.unequip_things(tx, context_thing.id, found, through)
        named = [thing for thing in already if thing.label in explicit or thing.name in explicit]
        _notify_room(tx, caller, context_thing, "unequipped", changed)
        return _make_equip_result(False, context, changed, named, unmatched)

    return await caller.change(work)


def _notify_room(
    tx: Change, caller: Caller, context: Thing, what: str, changed: list[Thing]
) -> None:
    """Tell everybody in a room what was equipped or unequipped there."""
    if context.id != caller.room_id or not changed:
        return
    shown = ", ".join(thing.label for thing in changed[:MAX_NOTICE_NAMES])
    more = f" and {len(changed) - MAX_NOTICE_NAMES} more" if len(changed) > MAX_NOTICE_NAMES else ""
    caller.append_notice(tx, f"{what} {shown}{more}")


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
    wanted: list[str],
    bag_ids: list[str],
    is_open: Callable[[Thing], bool] = lambda _: True,
) -> tuple[list[Thing], list[str]]:
    """Find the things that patterns match in open places, and the patterns without a match."""
    found: dict[str, Thing] = {}
    unmatched: list[str] = []
    chains = loadout.AncestorCache(conn)
    for pattern in wanted:
        matches = [
            thing
            for thing in equipment.match_things(conn, pattern, bag_ids)
            if all(map(is_open, chains.ancestors_of(thing)))
        ]
        if not matches:
            unmatched.append(pattern)
        found.update((thing.id, thing) for thing in matches)
    if not found:
        raise NotFound(
            f"Nothing matches {', '.join(unmatched)[:200]}.",
            hint="/inv all shows what can be equipped.",
        )
    return list(found.values()), unmatched


def _make_equipped_item(item: LoadoutItem) -> EquippedItem:
    return EquippedItem(
        name=item.thing.label,
        kind=item.thing.kind,
        namespace=item.namespace,
        by=item.source,
        priority=item.priority,
        usable=not item.obstacle,
        status=item.obstacle or "available",
    )
