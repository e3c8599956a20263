"""Moving a namespace into another, or out of it. What it holds takes new names with it: equipment,
what people decided about its tools and the figures of their calls stay with them."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import update

from sshwarma.tools.names import claim
from sshwarma.world import namespaces, overrides, things
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.schema import tool_calls
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


def move(tx: Change, space: Thing, parent: str, room_id: str | None = None) -> Thing:
    """Put a namespace into the one of that dotted name; to the top, if that is empty.

    Raises:
        NotFound: if there is no such parent.
        Invalid: if it is none that can be moved, or the parent lies inside it.
        Conflict: if a name is taken there, or would be mistaken for another.
    """
    if space.kind != "toolset":
        raise Invalid(f"{space.label} is a {space.kind} and stays where it is.")
    above = namespaces.find(tx.conn, parent, room_id).thing if parent else None
    if above is not None and above.kind not in ("toolset", "mcp"):
        raise Invalid(f"{above.label} is a {above.kind} and holds no namespaces.")
    name = f"{above.label}.{space.name}" if above else space.name
    if name == space.label:
        raise Conflict(f"{space.label} is there already.")
    namespaces.check_free(tx, name)
    inside = [one for one in namespaces.below(tx.conn, space) if one.qualified_name]
    for one in inside:
        namespaces.check(name + one.label.removeprefix(space.label))
    moved = things.move(tx, space.id, above.id if above else namespaces.MADE_IN)
    for one in (moved, *inside):
        tools = things.children(tx.conn, one.id, "tool")
        label = name + one.label.removeprefix(space.label)
        things.change(tx, one.id, qualified_name=label)
        for tool in tools:
            _rename(tx, tool, f"{label}:{tool.name}")
    return things.get_live(tx.conn, space.id)


def _rename(tx: Change, tool: Thing, canonical: str) -> None:
    claim(tx, canonical)
    decided = asdict(overrides.of_tool(tx.conn, tool))
    del decided["tool"]
    renamed = things.change(tx, tool.id, qualified_name=canonical)
    overrides.forget(tx, renamed)
    if any(value is not None for value in decided.values()):
        overrides.decide(tx, renamed, **decided)
    overrides.forget(tx, tool)
    calls = tool_calls.c.tool_id == tool.label
    tx.conn.execute(update(tool_calls).where(calls).values(tool_id=canonical))
