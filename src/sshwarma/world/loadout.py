"""The loadout: what one agent in one room can see and use now.

The most specific equipment row decides whether a tool is on or off (one that was taken back decides
nothing): the row of the tool itself, else of its namespace, else of the nearest ancestor reached
through `load_with_parent`, else their `auto_load`, else it is off. Within a level the room's row
beats the agent's, and the agent's row for this room beats its row for all rooms. The tools of
`global` are on regardless of rows. A tool that is on can be used if it is available, it and all its
namespaces are enabled, the states they require hold, and its provider reports no `obstacle`.
People's decisions about a tool (`overrides`) take precedence over its provider's declaration.
Everything that shows or calls a tool asks here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_TREE_DEPTH
from sshwarma.world import equipment, overrides, things
from sshwarma.world.agents import Agent
from sshwarma.world.builtin_containers import BUNDLE_KEY, GLOBAL_ID
from sshwarma.world.equip_role import may_equip_itself
from sshwarma.world.overrides import Override
from sshwarma.world.schema import things as things_table
from sshwarma.world.things import Thing

EquipSource = Literal["room", "agent", "always"]

NAMESPACE_KINDS: Final = ("container", "mcp", "toolset", "room")

UNAVAILABLE_OBSTACLE: Final = "unavailable"
"""The obstacle of a tool whose provider is not connected."""


@dataclass(frozen=True, slots=True)
class LoadoutItem:
    """An equipped thing.

    Attributes:
        source: whose row decided.
        obstacle: why it cannot be used now.
        title: another name to show it under.
        always_on: no row can turn it off.
        renderer: how pages show its results; "" as any other.
    """

    thing: Thing
    source: EquipSource
    priority: float
    namespace: str
    obstacle: str = ""
    title: str = ""
    always_on: bool = False
    renderer: str = ""


@dataclass(frozen=True, slots=True)
class Loadout:
    """Equipped tools and data of one agent in one room.

    The order: the room's first, then by priority.
    """

    tools: tuple[LoadoutItem, ...] = ()
    data: tuple[LoadoutItem, ...] = ()

    @property
    def usable_tools(self) -> tuple[LoadoutItem, ...]:
        """The tools that can be called now."""
        return tuple(item for item in self.tools if not item.obstacle)


_RowsByContext: TypeAlias = list[tuple[EquipSource, list[equipment.EquippedRow]]]
"""Rows of each context, those that decide first."""

_DecidedTools: TypeAlias = dict[str, LoadoutItem | None]
"""State of each tool by its id: its item if it is on, None if it is off."""


def compute_loadout(
    conn: Connection,
    room_id: str | None,
    agent_id: str | None,
    found: frozenset[str] = frozenset(),
) -> Loadout:
    """Return the loadout of an agent in a room; of one alone if the other is None.

    `found` are the detected states of the room.
    """
    contexts = _list_contexts(room_id, agent_id)
    rows = equipment.read_equipped_rows(conn, [context_id for _, context_id in contexts])
    by_context: _RowsByContext = [
        (source, [row for row in rows if row.context_id == context_id])
        for source, context_id in contexts
    ]
    items = _decide_equipped_tools(by_context)
    _decide_namespace_tools(conn, items, _equipped_namespaces(conn, by_context, room_id))
    _decide_auto_loaded_tools(conn, items)
    states = read_states(conn, room_id) | found
    chains = AncestorCache(conn)
    tools = [
        chains.resolve_item(item, states)
        for item in items.values()
        if item is not None and chains.find_disabled_bundle(item.thing) is None
    ]
    return Loadout(tuple(sorted(tools, key=_item_sort_key)), tuple(_equipped_data(by_context)))


def _list_contexts(room_id: str | None, agent_id: str | None) -> list[tuple[EquipSource, str]]:
    """Return the contexts of an agent in a room; the row of an earlier one decides."""
    contexts: list[tuple[EquipSource, str]] = []
    if room_id:
        contexts.append(("room", room_id))
    if room_id and agent_id:
        contexts.append(("agent", equipment.agent_in_room_id(agent_id, room_id)))
    if agent_id:
        contexts.append(("agent", agent_id))
    return contexts


def _decide_equipped_tools(by_context: _RowsByContext) -> _DecidedTools:
    """Return the tools that have a row of their own."""
    items: _DecidedTools = {}
    for source, rows in by_context:
        for row in rows:
            if row.thing.kind == "tool":
                item = LoadoutItem(row.thing, source, row.priority, "")
                items.setdefault(row.thing.id, item if row.equipped else None)
    return items


def _equipped_namespaces(
    conn: Connection, by_context: _RowsByContext, room_id: str | None
) -> dict[str, tuple[EquipSource, equipment.EquippedRow]]:
    """Return the room and namespaces that have a row, each with the deciding row."""
    spaces: dict[str, tuple[EquipSource, equipment.EquippedRow]] = {}
    for source, rows in by_context:
        for row in rows:
            if row.thing.kind in NAMESPACE_KINDS:
                spaces.setdefault(row.thing.id, (source, row))
        room = things.get_thing(conn, room_id) if source == "room" and room_id else None
        if room is not None:  # a thing that lies in a room is on in it
            spaces.setdefault(
                room.id, (source, equipment.EquippedRow(room.id, room, 0.0, equipped=True))
            )
    return spaces


def _decide_namespace_tools(
    conn: Connection,
    decided: _DecidedTools,
    spaces: dict[str, tuple[EquipSource, equipment.EquippedRow]],
) -> None:
    """Add the tools of namespaces that have a row; tools decided before keep theirs."""
    for source, row in spaces.values():
        for tool in read_tools_below(conn, row.thing, spaces.keys()):
            item = LoadoutItem(tool, source, row.priority, "")
            decided.setdefault(tool.id, item if row.equipped else None)


def _decide_auto_loaded_tools(conn: Connection, decided: _DecidedTools) -> None:
    """Add tools of namespaces that load everywhere; those of `global` are always on."""
    for namespace in _read_auto_load_namespaces(conn):
        for tool in read_tools_below(conn, namespace, ()):
            item = LoadoutItem(tool, "always", 0.0, "", always_on=namespace.id == GLOBAL_ID)
            if decided.setdefault(tool.id, item) is None and item.always_on:
                decided[tool.id] = item


@dataclass(frozen=True, slots=True)
class OffSwitch:
    """The row that switches a tool off: its own, or that of a namespace above it."""

    thing: Thing
    source: EquipSource


def find_off_switch(
    conn: Connection, tool: Thing, room_id: str | None, agent_id: str | None
) -> OffSwitch | None:
    """Return what switches a tool off for an agent in a room; None if no row does."""
    contexts = _list_contexts(room_id, agent_id)
    rows = equipment.read_equipped_rows(conn, [context_id for _, context_id in contexts])
    off = {(row.context_id, row.thing.id) for row in rows if not row.equipped}
    for link in (tool, *things.read_ancestors(conn, tool.id)):
        for source, context_id in contexts:
            if (context_id, link.id) in off:
                return OffSwitch(link, source)
        if link is not tool and not link.metadata.get("load_with_parent"):
            break
    return None


def find_off_contexts(conn: Connection, namespace: Thing) -> list[Thing]:
    """Return rooms and agents where a namespace, or a tool it loads, is switched off."""
    thing_ids = [namespace.id, *(tool.id for tool in read_tools_below(conn, namespace))]
    context_ids = equipment.read_off_contexts(conn, thing_ids)
    contexts = (things.get_thing(conn, context_id) for context_id in sorted(context_ids))
    return [thing for thing in contexts if thing is not None and thing.deleted_at is None]


def filter_reachable(
    conn: Connection, load: Loadout, agent: Agent, is_open: Callable[[Thing], bool]
) -> Loadout:
    """Return a loadout without what the agent may not equip itself with.

    That is what lies in rooms that are closed to it, and tools for a higher role than its own.
    """
    chains = AncestorCache(conn)

    def may_stay(item: LoadoutItem) -> bool:
        if item.source != "agent":
            return True
        chain = list(chains.ancestors_of(item.thing))
        return all(is_open(link) for link in chain if link.kind == "room") and may_equip_itself(
            agent, item.thing, chain
        )

    return Loadout(tuple(filter(may_stay, load.tools)), tuple(filter(may_stay, load.data)))


def find_equippable_tools(
    conn: Connection,
    on: Iterable[str],
    limit: int,
    is_open: Callable[[Thing], bool],
    states: frozenset[str],
) -> list[LoadoutItem]:
    """Return up to `limit` live tools whose ids are not in `on`, by qualified name.

    Only tools in rooms and bags that are open to the caller. `states` are those that are set.
    """
    query = (
        select(things_table)
        .where(
            things_table.c.kind == "tool",
            things_table.c.deleted_at.is_(None),
            things_table.c.qualified_name.is_not(None),
            things_table.c.enabled == 1,
        )
        .order_by(things_table.c.qualified_name)
    )
    skip = set(on)
    chains = AncestorCache(conn)
    items: list[LoadoutItem] = []
    for row in conn.execute(query).mappings():
        if row["id"] in skip:
            continue
        tool = things.thing_from_row(row)
        if not all(link.deleted_at is None and is_open(link) for link in chains.ancestors_of(tool)):
            continue
        if chains.find_disabled_bundle(tool) is not None:
            continue
        items.append(chains.resolve_item(LoadoutItem(tool, "always", 0.0, ""), states))
        if len(items) == limit:
            break
    return items


def _equipped_data(by_context: _RowsByContext) -> Iterator[LoadoutItem]:
    """Equipped data and references; the room's row decides for a name, on or off.

    Of several things of that name in one context, one that is on beats one that was turned off.
    """
    items: dict[str, LoadoutItem | None] = {}
    for source, rows in by_context:
        for row in sorted(rows, key=lambda row: not row.equipped):
            if row.thing.kind in ("data", "reference"):
                item = LoadoutItem(row.thing, source, row.priority, "")
                items.setdefault(row.thing.name, item if row.equipped else None)
    yield from sorted((item for item in items.values() if item is not None), key=_item_sort_key)


def read_tools_below(
    conn: Connection, namespace: Thing, decided: Collection[str] = ()
) -> Iterator[Thing]:
    """Return the tools of a namespace and of its descendants that load with it.

    The children `decided`, which have a row of their own, are left out: that is more specific.
    """
    stack = [namespace]
    seen_ids: set[str] = set()
    while stack:
        parent = stack.pop()
        if parent.id in seen_ids:
            continue
        seen_ids.add(parent.id)
        for child in things.read_children(conn, parent.id, "tool", *NAMESPACE_KINDS):
            if child.kind == "tool":
                yield child
            elif child.metadata.get("load_with_parent") and child.id not in decided:
                stack.append(child)


# Built once: to build a query takes longer than to run it.
_AUTO_LOAD_NAMESPACES: Final = select(things_table).where(
    things_table.c.auto_load == 1,
    things_table.c.deleted_at.is_(None),
    things_table.c.kind.in_(NAMESPACE_KINDS),
)
_AVAILABLE_SERVERS: Final = select(things_table.c.name).where(
    things_table.c.kind == "mcp",
    things_table.c.available == 1,
    things_table.c.deleted_at.is_(None),
)


def _read_auto_load_namespaces(conn: Connection) -> list[Thing]:
    found = conn.execute(_AUTO_LOAD_NAMESPACES).mappings()
    return [things.thing_from_row(row) for row in found]


def read_states(conn: Connection, room_id: str | None) -> frozenset[str]:
    """Return the states that were set in a room, without the detected ones."""
    room = things.get_thing(conn, room_id) if room_id else None
    states = set(room.metadata.get("states", ())) if room else set()
    servers = conn.scalars(_AVAILABLE_SERVERS)
    return frozenset(states | {f"mcp:{name}" for name in servers})


def _item_sort_key(item: LoadoutItem) -> tuple[int, float, str]:
    rank = {"always": 0, "room": 0, "agent": 1}[item.source]
    return rank, item.priority, item.thing.label


class AncestorCache:
    """Walks from tools up to the root, with a cache: tools share their namespaces."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._parents: dict[str, Thing | None] = {}

    @cached_property
    def _overrides(self) -> Mapping[str, Override]:
        return overrides.read_overrides(self._conn)

    def resolve_item(self, item: LoadoutItem, states: frozenset[str]) -> LoadoutItem:
        """Return the item with overrides applied, its namespace's name, any obstacle."""
        override = self._overrides.get(item.thing.label)
        tool = overrides.apply_override(item.thing, override)
        chain = list(self.ancestors_of(tool))
        namespace = chain[0].label if chain else ""
        required_states = [state for link in (tool, *chain) for state in _required_states(link)]
        missing_states = list(
            dict.fromkeys(state for state in required_states if state not in states)
        )
        disabled_link = next((link for link in (tool, *chain) if not link.enabled), None)
        removed_link = next((link for link in chain if link.deleted_at is not None), None)
        obstacle = ""
        if removed_link is not None:
            obstacle = f"{_format_namespace(removed_link)} was removed"
        elif disabled_link is not None:
            obstacle = (
                "disabled"
                if disabled_link is tool
                else f"{_format_namespace(disabled_link)} is disabled"
            )
        elif not tool.available:
            obstacle = UNAVAILABLE_OBSTACLE
        elif tool.metadata.get("obstacle"):
            obstacle = str(tool.metadata["obstacle"])
        elif missing_states:
            obstacle = f"needs {', '.join(missing_states)}"
        title = (override.name if override else None) or ""
        renderer = (override.renderer if override else None) or ""
        return replace(
            item, thing=tool, namespace=namespace, obstacle=obstacle, title=title, renderer=renderer
        )

    def find_disabled_bundle(self, thing: Thing) -> Thing | None:
        """Return the disabled toolset that has brought a tool: nobody sees what it has."""
        links = self.ancestors_of(thing)
        return next((one for one in links if not one.enabled and BUNDLE_KEY in one.metadata), None)

    def ancestors_of(self, thing: Thing) -> Iterator[Thing]:
        """Return the ancestors of a thing, from its parent up to the root."""
        parent_id = thing.parent_id
        for _ in range(MAX_TREE_DEPTH):
            if parent_id is None:
                return
            if parent_id not in self._parents:
                self._parents[parent_id] = things.get_thing(self._conn, parent_id)
            parent = self._parents[parent_id]
            if parent is None:
                return
            yield parent
            parent_id = parent.parent_id


def _format_namespace(thing: Thing) -> str:
    """Name a namespace as people type it, with its kind: "namespace git.branch"."""
    return f"{'MCP server' if thing.kind == 'mcp' else 'namespace'} {thing.label}"


def _required_states(thing: Thing) -> list[str]:
    return list(thing.metadata.get("required_states", ()))
