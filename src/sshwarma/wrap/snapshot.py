"""The snapshot of a room that layer scripts (`wrap.lua`, `hook:wrap`) read, as plain values."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CONTEXT_NAMESPACES
from sshwarma.world import namespaces
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.loadout import Loadout
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row
from sshwarma.world.things import Thing

WRAP_SCRIPT_NAME: Final = "wrap.lua"
HOOK_NAME: Final = "hook:wrap"
COMMAND_PREFIX: Final = "command:"


def build_snapshot(
    caller: Caller, room: Room, load: Loadout, shown: Sequence[Row], question: str, asker: str
) -> dict[str, Any]:
    """Return the snapshot of a model's room that the layer scripts read.

    Args:
        caller: The model, in its room.
        room: The room.
        load: The model's loadout there.
        shown: Rows of the log in the model's window.
        question: Text of the question.
        asker: Name of the agent who asks.
    """
    world, agent = caller.world, caller.agent
    data = [item.thing for item in load.data if _is_context_data(item.thing)]
    agent_names = [world.agents.name_of(p.agent_id) for p in world.presence.in_room(caller.room_id)]
    return {
        "agent": _agent_snapshot(agent),
        "room": _room_snapshot(room),
        "equipped": [{"name": t.label, "content": t.content or t.uri or ""} for t in data],
        "log": {
            "count": len(shown),
            "first": shown[0].seq if shown else 0,
            "last": shown[-1].seq if shown else 0,
        },
        "here": sorted(agent_names),
        "clock": time.strftime("%Y-%m-%d %H:%M %Z"),
        "asker": asker,
        "question": question,
    }


def unloaded_namespaces(
    conn: Connection, load: Loadout, held: Collection[str]
) -> list[dict[str, str]]:
    """Return the namespaces without any equipped tool: name, description, missing states.

    Past MAX_CONTEXT_NAMESPACES the rest is counted.
    """
    loaded_ids = {item.thing.parent_id for item in load.tools}
    unloaded = []
    for space in namespaces.read_namespaces(conn):
        if space.tools and space.thing.enabled and space.thing.id not in loaded_ids:
            description = space.thing.description or space.title
            states = namespaces.missing_states(space.required_states, held)
            suffix = f" (needs {', '.join(states)})" if states else ""
            unloaded.append({"name": space.id, "description": description + suffix})
    if len(unloaded) > MAX_CONTEXT_NAMESPACES:
        note = f"{len(unloaded) - MAX_CONTEXT_NAMESPACES} more"
        unloaded[MAX_CONTEXT_NAMESPACES:] = [
            {"name": note, "description": "search them with find_rooms"}
        ]
    return unloaded


def _is_context_data(thing: Thing) -> bool:
    """Return whether a thing is data for the context: no script and no command."""
    return not thing.name.startswith((HOOK_NAME, WRAP_SCRIPT_NAME, COMMAND_PREFIX))


def _room_snapshot(room: Room) -> dict[str, Any]:
    return {
        "name": room.name,
        "description": room.description,
        "vibe": room.vibe,
        "exits": [{"direction": way.direction, "to": way.to_name} for way in room.exits],
        "floor": [{"name": thing.name, "kind": thing.kind} for thing in room.bag],
    }


def _agent_snapshot(agent: Agent) -> dict[str, str]:
    return {"name": agent.name, "description": agent.description, "prompt": agent.prompt}
