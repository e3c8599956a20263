"""The verbs of `/inv`: equipment, contents of bags, and what could be equipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sshwarma.common.limits import MAX_SHOWN_AVAILABLE_TOOLS, MAX_SHOWN_EQUIPPED
from sshwarma.tools.provider import PROVIDER_KEY
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, agent_options
from sshwarma.verbs.inventory_views import BagItem, EquippedItem, Inventory
from sshwarma.verbs.registry import group
from sshwarma.verbs.resolve import find_context
from sshwarma.world import equipment, loadout, things
from sshwarma.world.access import Right
from sshwarma.world.bootstrap import is_of_use
from sshwarma.world.builtin_containers import DEFAULTS_ID, is_builtin_namespace
from sshwarma.world.caller import Caller
from sshwarma.world.glob_patterns import compile_glob
from sshwarma.world.ids import now_ms
from sshwarma.world.loadout import Loadout, LoadoutItem
from sshwarma.world.overrides import CONFIRM_KEY
from sshwarma.world.things import Thing


async def complete_inventory(request: CompletionRequest) -> list[Option]:
    """List whose inventory to show: `room`, `me`, `all`, or an agent as `@NAME`."""
    whose = [("room", "this room"), ("me", "yourself"), ("all", "and what could be equipped")]
    return [*whose, *agent_options(request.caller, "@")]


_PROVIDERS: Final = {"toolset": "toolset", "mcp": "MCP server"}
"""Where the tools of a provider come from, in words."""

InventoryName: TypeAlias = Annotated[
    str,
    Arg(complete=complete_inventory),
    Field(json_schema_extra={"pattern": "^((room|me|all)(:.+)?|@.+)$"}),
]
"""`room`, `me`, `all`, or `@agent`; each also with a pattern, as `room:prompt:*`."""


inv = group(
    "inv",
    section="Inventory",
    default="show",
    default_takes_words=True,
    aliases=("inventory", "i"),
    doc="""Show what is equipped, and what lies in bags.

    /inv me shows your equipment and bag, /inv all also what could be equipped.
    """,
)


@inv.verb(
    "show",
    needs=Right.ENTER,
    tool="inventory",
    mcp_tool="inventory_list",
    examples=("/inv", "/inv me", "/inv all", "/inv @qwen"),
    default=True,
)
async def show_inventory(caller: Caller, inventory: InventoryName | None = None) -> Inventory:
    """Show what is equipped.

    Without an argument: what is equipped for you here, and the bag of the room. `room`: the
    equipment and bag of the room. `me` or `@agent`: those of an agent. `all`: the same as without
    an argument, and what else could be equipped. Of more than {MAX_SHOWN_EQUIPPED} things the first
    are shown; `room:prompt:*` shows those of a name or pattern, and so do the other words.

    For models:
        Show what is equipped: room, me, @agent or all.

    Args:
        inventory: room, me, all or @agent (default: your equipment here and the bag of the room).
    """
    inventory, _, pattern = (inventory or "").partition(":")
    matches = compile_glob(pattern, has_sets=False) if pattern else None
    if inventory in ("", "all", "room"):
        owner = await _read_room(caller, with_caller=inventory != "room")
    else:
        choices = ("room", "me", "all", "@agent")
        owner = await _read_agent(caller, await find_context(caller, inventory, choices))
    if inventory != "all":
        return await _make_inventory(caller, owner, matches)
    available = await list_equippable_tools(caller, owner.load, MAX_SHOWN_AVAILABLE_TOOLS + 1)
    shown = map(_make_equipped_item, available[:MAX_SHOWN_AVAILABLE_TOOLS])
    return replace(
        await _make_inventory(caller, owner, matches),
        available=tuple(
            sorted(
                shown,
                key=lambda item: (is_builtin_namespace(item.namespace), item.namespace, item.name),
            )
        ),
        available_cut=len(available) > MAX_SHOWN_AVAILABLE_TOOLS,
    )


@inv.verb("defaults", needs=Right.ADMIN, tool=False, examples=("/inv defaults",))
async def show_defaults(caller: Caller) -> Inventory:
    """Show the equipment that new rooms get."""
    load = await caller.world.loadout(None, DEFAULTS_ID)
    owner = _Owner(
        DEFAULTS_ID, _without_always(load), [], "Bag of new rooms", "new rooms", (DEFAULTS_ID,)
    )
    return await _make_inventory(caller, owner)


async def _make_inventory(
    caller: Caller, owner: _Owner, matches: Callable[[str], bool] | None = None
) -> Inventory:
    """Return what is equipped and what the bag has, of these names."""
    tools = owner.load.tools
    if caller.reader.kind == "model":  # its list of tools leaves out what it would be refused
        rights = caller.rights_in(await caller.room(), now_ms())
        tools = tuple(item for item in tools if is_of_use(item.thing, rights))
    items = [*tools, *owner.load.data]
    bag = [one for one in owner.bag if one.metadata.get("role") not in ("state", "memory")]
    off = await caller.world.memoized(
        ("switched off", owner.contexts),
        lambda conn: equipment.read_switched_off(conn, owner.contexts),
    )
    if matches:
        items = [one for one in items if matches(one.thing.label) or matches(one.thing.name)]
        bag = [thing for thing in bag if matches(thing.name)]
        off = list(filter(matches, off))
    return Inventory(
        of=owner.name,
        equipped=tuple(map(_make_equipped_item, items[:MAX_SHOWN_EQUIPPED])),
        bag_title=owner.bag_title,
        bag=tuple(
            BagItem(thing.name, thing.kind, thing.description) for thing in bag[:MAX_SHOWN_EQUIPPED]
        ),
        whose=owner.whose,
        switched_off=tuple(off[:MAX_SHOWN_EQUIPPED]),
        off_count=len(off),
        equipped_count=len(items),
        bag_count=len(bag),
    )


@dataclass(frozen=True, slots=True)
class _Owner:
    """Owner of equipment and a bag: a room, an agent, or the defaults of new rooms."""

    name: str
    load: Loadout
    bag: list[Thing]
    bag_title: str
    whose: str
    contexts: tuple[str, ...]


async def _read_room(caller: Caller, *, with_caller: bool) -> _Owner:
    """Read the caller's room; `with_caller` adds what the caller has equipped."""
    room = await caller.room()
    bag = await caller.world.memoized(
        ("bag", room.id),
        lambda conn: things.read_children(conn, room.id, "data", "reference", "tool", texts=False),
    )
    load = await caller.world.loadout(
        room.id, caller.agent.id if with_caller else None, caller.acting_agent
    )
    contexts = (room.id, caller.agent.id) if with_caller else (room.id,)
    return _Owner(room.name, load, bag, "Room contents", "yours", contexts)


async def _read_agent(caller: Caller, context: Thing) -> _Owner:
    """Read an agent, with what it has for this room alone.

    The bags of other agents are private.
    """
    world = caller.world
    in_room_id = equipment.agent_in_room_id(context.id, caller.room_id)
    here, everywhere = await world.loadout(None, in_room_id), await world.loadout(None, context.id)
    load = _join_loadouts(_without_always(here), _without_always(everywhere))
    if context.id == caller.agent.id:
        bag = await world.memoized(
            ("bag", context.id),
            lambda conn: things.read_children(conn, context.id, texts=False),
        )
        return _Owner(context.name, load, bag, "Your bag", "yours", (in_room_id, context.id))
    title, whose = f"{context.name}'s bag", f"{context.name}'s"
    return _Owner(context.name, load, [], title, whose, (in_room_id, context.id))


def _join_loadouts(first: Loadout, second: Loadout) -> Loadout:
    """Return the things of two loadouts, each once."""
    tools = {item.thing.id: item for item in (*second.tools, *first.tools)}
    data = {item.thing.id: item for item in (*second.data, *first.data)}
    return Loadout(tuple(tools.values()), tuple(data.values()))


def _without_always(load: Loadout) -> Loadout:
    """Return what is equipped on a context itself, without tools on everywhere."""
    return Loadout(tuple(item for item in load.tools if item.source != "always"), load.data)


async def list_equippable_tools(caller: Caller, load: Loadout, limit: int) -> list[LoadoutItem]:
    """List at most `limit` tools that the caller could add to those in `load`."""
    on = frozenset(item.thing.id for item in load.tools)
    is_open = await caller.visibility_filter()
    states = await caller.world.states(caller.room_id)
    return await caller.world.memoized(
        ("available", on, limit, caller.agent.id, caller.room_id),
        lambda conn: loadout.find_equippable_tools(conn, on, limit, is_open, states),
    )


def _make_equipped_item(item: LoadoutItem) -> EquippedItem:
    return EquippedItem(
        name=item.thing.label,
        kind=item.thing.kind,
        namespace=item.namespace,
        by=item.source,
        priority=item.priority,
        usable=not item.obstacle,
        status=item.obstacle or "available",
        origin=find_origin(item),
        renderer=item.renderer,
        confirms=bool(item.thing.metadata.get(CONFIRM_KEY)),
    )


def find_origin(item: LoadoutItem) -> str:
    """Return where a tool comes from, in words; "" if it was made here."""
    if item.thing.kind != "tool":
        return ""
    if is_builtin_namespace(item.namespace):
        return "built in"
    return _PROVIDERS.get(str(item.thing.metadata.get(PROVIDER_KEY, "")), "")


async def find_places(caller: Caller) -> dict[str, tuple[str, ...]]:
    """Return where each tool is equipped, by its id.

    `room`, `me` and `everywhere`; `new rooms` only for those who may administer.
    """
    contexts = {
        "room": (caller.room_id, None),
        "me": (None, caller.agent.id),
        "me here": (None, equipment.agent_in_room_id(caller.agent.id, caller.room_id)),
    }
    if await caller.may_administer():
        contexts["new rooms"] = (None, DEFAULTS_ID)
    places: dict[str, dict[str, None]] = {}
    for place, (room_id, agent_id) in contexts.items():
        for item in (await caller.world.loadout(room_id, agent_id)).tools:
            is_always = item.source == "always"
            if is_always and place != "room":
                continue  # a room may switch it off
            shown = "everywhere" if is_always else place.removesuffix(" here")
            places.setdefault(item.thing.id, {})[shown] = None
    return {tool_id: tuple(found) for tool_id, found in places.items()}
