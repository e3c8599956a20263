"""Creation of Lua tools: their place, and names that cannot be confused."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sshwarma.common.limits import MAX_TOOLS_PER_PLACE
from sshwarma.lua_tools.declaration import ToolDeclaration
from sshwarma.lua_tools.provider import LUA_PROVIDER
from sshwarma.tools.names import claim_tool_name
from sshwarma.tools.provider import PROVIDER_KEY
from sshwarma.world import equipment, overrides, text_history, things
from sshwarma.world.errors import Conflict
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


def is_lua_tool(thing: Thing) -> bool:
    """Return whether a thing is a tool that somebody wrote in Lua."""
    return thing.kind == "tool" and thing.metadata.get(PROVIDER_KEY) == LUA_PROVIDER


def store_tool(
    tx: Change, bag: Thing, name: str, source: str, declaration: ToolDeclaration, by: str
) -> tuple[Thing, bool]:
    """Create a tool in a room, on an agent or in a namespace, or replace its script.

    Returns the tool, and whether it is new. A tool in a room is on in it; one of an agent is
    equipped on that agent; one in a namespace is on where that is loaded.

    Raises:
        Conflict: if the bag is full, or the name is taken or could be confused with another.
    """
    metadata: dict[str, Any] = {
        PROVIDER_KEY: LUA_PROVIDER,
        "input_schema": declaration.input_schema,
    }
    tool = things.find_child(tx.conn, bag.id, name, "tool")
    if tool is not None:
        if not is_lua_tool(tool):
            raise Conflict(f"{tool.label} is not a tool written here.")
        return (
            text_history.change_text(
                tx,
                tool,
                source,
                by=by,
                description=declaration.description or None,
                metadata={**tool.metadata, **metadata},
            ),
            False,
        )
    if (
        len(things.read_children(tx.conn, bag.id, "tool", limit=MAX_TOOLS_PER_PLACE))
        >= MAX_TOOLS_PER_PLACE
    ):
        raise Conflict(f"{bag.label} can have at most {MAX_TOOLS_PER_PLACE} tools.")
    return _create_tool(
        tx,
        bag=bag,
        name=name,
        source=source,
        description=declaration.description,
        metadata=metadata,
        by=by,
    ), True


def copy_tools(tx: Change, from_id: str, to: Thing, by: str) -> None:
    """Copy the Lua tools of a room to another, renamed to it, with the same state.

    Tools that are off or disabled stay so. The room already has the equipment of the other.
    """
    tools = list(filter(is_lua_tool, things.read_children(tx.conn, from_id, "tool")))
    states = equipment.read_row_states(tx.conn, from_id, tools)
    on: defaultdict[float, list[Thing]] = defaultdict(list)  # by priority
    off: list[Thing] = []
    for tool in tools:
        new_tool = _create_tool(
            tx,
            bag=to,
            name=tool.name,
            source=tool.content or "",
            description=tool.description,
            metadata=tool.metadata,
            by=by,
        )
        override = overrides.read_tool_override(tx.conn, tool)
        decided = {
            name: getattr(override, name) for name in ("enabled", "description", "leave_out")
        }
        if any(value is not None for value in decided.values()):
            overrides.set_override(tx, new_tool, **decided)
        state, priority = states.get(tool.id, ("neutral", 0.0))
        if state == "on":
            on[priority].append(new_tool)
        elif state == "off":
            off.append(new_tool)
    equipment.unequip_things(tx, to.id, tools)
    for priority, new_tools in on.items():
        equipment.equip_things(tx, to.id, new_tools, priority)
    equipment.switch_off_things(tx, to.id, off)


def _create_tool(
    tx: Change,
    bag: Thing,
    name: str,
    source: str,
    description: str,
    metadata: dict[str, Any],
    by: str,
) -> Thing:
    qualified = f"{bag.label}:{name}"
    claim_tool_name(tx, qualified)
    tool = things.create_thing(
        tx,
        bag.id,
        "tool",
        name,
        qualified_name=qualified,
        description=description,
        content=source,
        metadata=metadata,
        created_by=by,
    )
    overrides.clear_override(tx, tool)
    if bag.kind == "agent":
        equipment.equip_things(tx, bag.id, [tool])
    return tool
