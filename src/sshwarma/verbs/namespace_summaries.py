"""Summaries of the namespaces of tools as they are for a caller in its room."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_TREE_DEPTH
from sshwarma.verbs.namespace_views import NamespaceSummary
from sshwarma.world import equipment, loadout, namespaces
from sshwarma.world.caller import Caller
from sshwarma.world.loadout import Loadout
from sshwarma.world.namespaces import Namespace


def summarize_namespaces(conn: Connection, caller: Caller, load: Loadout) -> list[NamespaceSummary]:
    """Return every namespace; `load` is the caller's loadout."""
    in_room_id = equipment.agent_in_room_id(caller.agent.id, caller.room_id)
    contexts = ((caller.agent.id, "agent"), (in_room_id, "agent"), (caller.room_id, "room"))
    rows = equipment.read_equipped_rows(conn, [context_id for context_id, _ in contexts])
    equipped = {row.thing.id for row in rows if row.equipped}
    off: dict[str, str] = {}
    for context_id, source in contexts:
        own = {row.thing.id: row.equipped for row in rows if row.context_id == context_id}
        off |= {thing_id: "" if is_on else source for thing_id, is_on in own.items()}
    on: dict[str, int] = {}
    for item in load.usable_tools:
        on[item.thing.parent_id or ""] = on.get(item.thing.parent_id or "", 0) + 1
    states = loadout.read_states(conn, caller.room_id)
    states |= caller.world.detected_states(caller.room_id)
    spaces = namespaces.read_namespaces(conn, caller.room_id)
    by_id = {space.id: space for space in spaces}
    return [
        replace(
            _make_summary(space, by_id, equipped, on, states),
            switched_off=off.get(space.thing.id, ""),
        )
        for space in spaces
    ]


def _make_summary(
    space: Namespace,
    by_id: dict[str, Namespace],
    equipped: set[str],
    on: dict[str, int],
    held: frozenset[str],
) -> NamespaceSummary:
    chain, parent = [space], space.parent
    while parent in by_id and len(chain) < MAX_TREE_DEPTH:
        chain.append(by_id[parent])
        parent = by_id[parent].parent
    missing = namespaces.missing_states(
        (state for link in chain for state in link.required_states), held
    )
    usable = all(link.thing.enabled and link.thing.available for link in chain)
    tools_on = on.get(space.thing.id, 0)
    is_empty = not space.tools or not usable or bool(missing)  # nothing says whether it is loaded
    return NamespaceSummary(
        id=space.id,
        name=space.title,
        description=space.thing.description,
        keywords=space.keywords,
        parent=space.parent,
        children=space.children,
        required_states=space.required_states,
        auto_load=space.thing.auto_load,
        load_with_parent=space.load_with_parent,
        loaded=bool(tools_on)
        or (is_empty and (space.thing.id in equipped or space.thing.auto_load)),
        available=usable and not missing,
        missing=missing,
        tools=space.tools,
        tools_on=tools_on,
        enabled=all(link.thing.enabled for link in chain),
    )
