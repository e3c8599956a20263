"""Moves a namespace into another, or out of it.

Its contents are renamed with it and keep their equipment, overrides and call statistics.
"""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import update

from sshwarma.tools.names import claim_tool_name
from sshwarma.world import namespaces, overrides, things
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.schema import tool_calls
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


def move_namespace(tx: Change, space: Thing, parent: str, room_id: str | None = None) -> Thing:
    """Move a namespace into the one of that dotted name; to the top, if that is empty.

    Raises:
        NotFound: if there is no such parent.
        Invalid: if the namespace cannot be moved, or the parent lies inside it.
        Conflict: if a name is taken there, or could be confused with another.
    """
    if space.kind != "toolset":
        raise Invalid(f"{space.label} is {things.describe_kind(space.kind)} and cannot be moved.")
    above = namespaces.find_namespace(tx.conn, parent, room_id).thing if parent else None
    if above is not None and above.kind not in ("toolset", "mcp"):
        kind = things.describe_kind(above.kind)
        raise Invalid(f"{above.label} is {kind} and cannot contain namespaces.")
    name = f"{above.label}.{space.name}" if above else space.name
    if name == space.label:
        raise Conflict(f"{space.label} is already there.")
    namespaces.check_namespace_free(tx, name)
    inside = [one for one in namespaces.read_descendants(tx.conn, space) if one.qualified_name]
    for one in inside:
        namespaces.check_namespace_name(name + one.label.removeprefix(space.label))
    moved = things.move_thing(tx, space.id, above.id if above else namespaces.NAMESPACE_CONTAINER)
    for one in (moved, *inside):
        tools = things.read_children(tx.conn, one.id, "tool")
        label = name + one.label.removeprefix(space.label)
        things.update_thing(tx, one.id, qualified_name=label)
        for tool in tools:
            _rename_tool(tx, tool, f"{label}:{tool.name}")
    return things.get_live_thing(tx.conn, space.id)


def _rename_tool(tx: Change, tool: Thing, canonical: str) -> None:
    claim_tool_name(tx, canonical)
    decided = asdict(overrides.read_tool_override(tx.conn, tool))
    del decided["tool"]
    renamed = things.update_thing(tx, tool.id, qualified_name=canonical)
    overrides.clear_override(tx, renamed)
    if any(value is not None for value in decided.values()):
        overrides.set_override(tx, renamed, **decided)
    overrides.clear_override(tx, tool)
    calls = tool_calls.c.tool_id == tool.label
    tx.conn.execute(update(tool_calls).where(calls).values(tool_id=canonical))
