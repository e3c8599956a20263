"""The verb `tool state`: what a script keeps in `host.state`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from sshwarma.common.shorten import shorten_text
from sshwarma.lua_tools.state_calls import StateScope
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.arguments import ThingName
from sshwarma.verbs.rights import BAG_RIGHT
from sshwarma.verbs.thing_versions import check_may_write, find_written
from sshwarma.verbs.tool import TOOL_RIGHTS, tool
from sshwarma.verbs.views import (
    Confirmation,
    draw_columns,
    draw_hint,
    format_count,
    view_for_reader,
)
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Reader
from sshwarma.world.script_state import clear_state, count_state, list_state
from sshwarma.world.store import Change


@dataclass(frozen=True, slots=True)
class ScriptStore:
    """The values in one of the stores of a script.

    Attributes:
        scope: `tool`, `room` or `agent`, as `host.state` takes it.
        owner: name of the script, the room or the agent.
        values: the values by key.
    """

    scope: StateScope
    owner: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptState:
    """The values of a script for itself, for this room and for the caller.

    Attributes:
        name: the tool or text.
        stores: those that have a value.
        others: number of keys that it keeps for other rooms and agents.
    """

    name: str
    stores: tuple[ScriptStore, ...]
    others: int


@view_for_reader(ScriptState)
def draw_script_state(result: ScriptState, reader: Reader) -> Block:
    """Draw the values of each store."""
    lines: list[Line] = []
    for store in result.stores:
        place = {"tool": "for itself", "room": f"for {store.owner}", "agent": f"for @{store.owner}"}
        lines.append(line(("heading", f"{result.name} keeps {place[store.scope]}:")))
        lines += draw_columns(
            (("mark", key), shorten_text(json.dumps(value, ensure_ascii=False)))
            for key, value in store.values.items()
        )
    if result.others:
        count = format_count(result.others, "key")
        lines.append(line(("dim", f"It keeps {count} for other rooms and agents.")))
    if not lines:
        return block(line(f"{result.name} keeps nothing."))
    lines += draw_hint(reader, "{} deletes all of it.", "tool state", name=result.name, clear=True)
    return block(*lines)


@tool.verb(
    "state",
    needs=Right.ENTER,
    also_needs=(BAG_RIGHT, *TOOL_RIGHTS),
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/tool state dice", "/tool state trigger:pager --clear"),
)
async def show_state(
    caller: Caller, name: ThingName, *, clear: bool = False
) -> ScriptState | Confirmation:
    """Show or delete what a script keeps in host.state.

    It shows what the script keeps for itself, for this room and for you.

    Args:
        name: the tool, or the text of a trigger, command or layer.
        clear: delete all that it keeps, for every room and agent.
    """
    script = await find_written(caller, name)
    await check_may_write(caller, script)
    if clear:
        return await _clear(caller, script.id, script.label)
    owners: tuple[tuple[StateScope, str, str], ...] = (
        ("tool", script.id, script.label),
        ("room", caller.room_id, (await caller.room()).name),
        ("agent", caller.agent.id, caller.agent.name),
    )

    def read(conn: Connection) -> ScriptState:
        kept = [
            ScriptStore(scope, owner, list_state(conn, script.id, owner_id))
            for scope, owner_id, owner in owners
        ]
        stores = tuple(store for store in kept if store.values)
        shown = sum(len(store.values) for store in stores)
        return ScriptState(script.label, stores, count_state(conn, script.id) - shown)

    return await caller.world.store.read(read)


async def _clear(caller: Caller, script_id: str, label: str) -> Confirmation:
    def work(tx: Change) -> int:
        count = clear_state(tx, script_id)
        if count:
            caller.append_notice(tx, f"deleted what {label} keeps")
        return count

    count = await caller.change(work)
    if not count:
        return Confirmation(f"{label} keeps nothing.")
    return Confirmation(f"Deleted {format_count(count, 'key')} of {label}.")
