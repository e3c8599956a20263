"""Operations on agents: `sshwarma agents`."""

from __future__ import annotations

from sshwarma.admin.operation_registry import (
    Json,
    audited_change,
    format_time,
    register_operation,
    require_agent,
)
from sshwarma.world import agent_removal, agents, movement, owners, rows
from sshwarma.world.ids import now_ms
from sshwarma.world.last_use import read_last_seen
from sshwarma.world.store import Change
from sshwarma.world.world import World


@register_operation
async def agents_list(world: World, /) -> Json:
    """Agents with role, keys and connections, except those of removed models.

    Keys that have expired are not counted. `last_seen_at` is now for those who are connected, else
    the last use of a key or token: exactly since the start of the server, before that as recorded.
    """
    recorded = await world.store.read(read_last_seen)
    last_seen = {
        agent.id: world.last_use.seen_at(agent.id, recorded.get(agent.id)) for agent in world.agents
    }
    for agent in world.agents:
        if world.presence.connections_of(agent.id) and agent.kind == "person":
            last_seen[agent.id] = now_ms()
    return [
        {
            "name": agent.name,
            "kind": agent.kind,
            "role": agent.role,
            "disabled": agent.disabled,
            "keys": sum(not key.expired for key in world.agents.keys_of(agent.id)),
            "connections": len(world.presence.connections_of(agent.id)),
            "last_seen_at": format_time(last_seen.get(agent.id)),
        }
        for agent in sorted(world.agents, key=lambda agent: agent.name)
        if not agent.retired
    ]


@register_operation
async def agents_role(world: World, /, name: str, role: str) -> Json:
    """Give an agent a server role; write no audit row if it has that role."""
    agent = require_agent(world, name)
    if agent.kind == "person" and agent.role == role:
        return {"name": agent.name, "role": role, "changed": False}
    await audited_change(
        world, f"agents role {name} {role}", lambda tx: owners.set_agent_role(tx, agent.id, role)
    )
    for room_id in movement.rooms_with(world, agent.id):
        await movement.evict_if_closed(world, agent.id, room_id)
    return {"name": agent.name, "role": role, "changed": True}


@register_operation
async def agents_rename(world: World, /, name: str, new_name: str) -> Json:
    """Give a person another name; the rooms where they are read a notice."""
    agent = require_agent(world, name)
    here = movement.rooms_with(world, agent.id)

    def work(tx: Change) -> str:
        old_name = agents.rename_agent(tx, agent.id, new_name)
        for room_id in sorted(here):
            rows.append_row(
                tx, room_id, "notice", f"{old_name} is now called {new_name}", author_id=None
            )
        return old_name

    old_name = await audited_change(world, f"agents rename {name} {new_name}", work)
    return {"name": new_name, "old_name": old_name}


@register_operation
async def agents_remove(world: World, /, name: str) -> Json:
    """Remove a person with keys, tokens and open invites, and end their connections."""
    agent = require_agent(world, name)
    removed = await audited_change(
        world, f"agents remove {name}", lambda tx: agent_removal.remove_agent(tx, agent.id)
    )
    return {
        "name": removed.name,
        "keys": removed.keys,
        "tokens": removed.tokens,
        "invites": removed.invites,
        "rooms_without_owner": list(removed.rooms),
    }


@register_operation
async def agents_disable(world: World, /, name: str) -> Json:
    """Disable an agent and end its connections."""
    return await _set_agent_disabled(world, name, True)


@register_operation
async def agents_enable(world: World, /, name: str) -> Json:
    """Enable a disabled agent."""
    return await _set_agent_disabled(world, name, False)


async def _set_agent_disabled(world: World, name: str, disabled: bool) -> Json:
    agent = require_agent(world, name)
    if agent.disabled == disabled:
        return {"name": agent.name, "disabled": disabled, "changed": False}
    word = "disable" if disabled else "enable"
    await audited_change(
        world, f"agents {word} {name}", lambda tx: owners.set_agent_disabled(tx, agent.id, disabled)
    )
    return {"name": agent.name, "disabled": disabled, "changed": True}
