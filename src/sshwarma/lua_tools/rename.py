"""Moves a namespace into another, or out of it; gives tools other names.

What is renamed keeps its equipment, overrides and call statistics.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import update

from sshwarma.tools.names import claim_tool_name
from sshwarma.world import namespaces, overrides, text_history, things
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.schema import tool_calls
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


def move_namespace(tx: Change, space: Thing, parent: str, room_id: str | None = None) -> Thing:
    """Move a namespace into the one of a dotted name; to the top if it is empty.

    Raises:
        NotFound: if there is no such parent.
        Invalid: if the namespace cannot be moved, or the parent lies inside it.
        Conflict: if a name is taken there, or could be confused with another.
    """
    if space.kind != "toolset":
        raise Invalid(f"{space.label} is {things.describe_kind(space.kind)} and cannot be moved.")
    if BUNDLE_KEY in space.metadata:
        raise Invalid(f"{space.label} is a toolset, whose name is its id, and cannot be moved.")
    parent_thing = namespaces.find_namespace(tx.conn, parent, room_id).thing if parent else None
    if parent_thing is not None and parent_thing.kind not in ("toolset", "mcp"):
        kind = things.describe_kind(parent_thing.kind)
        raise Invalid(f"{parent_thing.label} is {kind} and cannot contain namespaces.")
    name = f"{parent_thing.label}.{space.name}" if parent_thing else space.name
    if name == space.label:
        raise Conflict(f"{space.label} is already there.")
    namespaces.check_namespace_free(tx, name)
    descendants = [
        namespace
        for namespace in namespaces.read_descendants(tx.conn, space)
        if namespace.qualified_name
    ]
    for namespace in descendants:
        namespaces.check_namespace_name(name + namespace.label.removeprefix(space.label))
    new_space = things.move_thing(
        tx, space.id, parent_thing.id if parent_thing else namespaces.NAMESPACE_CONTAINER
    )
    for namespace in (new_space, *descendants):
        tools = things.read_children(tx.conn, namespace.id, "tool")
        label = name + namespace.label.removeprefix(space.label)
        old_label = namespace.label
        if namespace is new_space:
            old_label = space.label
        changes: dict[str, Any] = {"qualified_name": label}
        if namespace.description == namespaces.make_description(old_label):
            changes["description"] = namespaces.make_description(label)
        things.update_thing(tx, namespace.id, **changes)
        for tool in tools:
            _rename_tool(tx, tool, f"{label}:{tool.name}")
    return things.get_live_thing(tx.conn, space.id)


def rename_tools_of(tx: Change, place: Thing) -> None:
    """Rename the tools of a room or an agent after its present name."""
    for tool in things.read_children(tx.conn, place.id, "tool"):
        _rename_tool(tx, tool, f"{place.label}:{tool.name}")


def rename_tool(tx: Change, tool: Thing, name: str) -> Thing:
    """Give a tool another name in its place, with its versions.

    Raises:
        Conflict: if the name is taken, or could be confused with another.
    """
    old_key = text_history.make_key(tool)
    place = tool.label.removesuffix(f":{tool.name}")
    renamed = _rename_tool(tx, tool, f"{place}:{name}", name=name)
    text_history.rename_key(tx, tool.parent_id or "", old_key, text_history.make_key(renamed))
    return renamed


def _rename_tool(tx: Change, tool: Thing, canonical: str, **columns: Any) -> Thing:
    claim_tool_name(tx, canonical)
    override = asdict(overrides.read_tool_override(tx.conn, tool))
    del override["tool"]
    new_tool = things.update_thing(tx, tool.id, qualified_name=canonical, **columns)
    overrides.clear_override(tx, new_tool)
    if any(value is not None for value in override.values()):
        overrides.set_override(tx, new_tool, **override)
    overrides.clear_override(tx, tool)
    calls = tool_calls.c.tool_id == tool.label
    tx.conn.execute(update(tool_calls).where(calls).values(tool_id=canonical))
    return new_tool
