"""Operations on agents: `sshwarma agents`."""

from __future__ import annotations

from sshwarma.admin.operation_registry import (
    Json,
    audited_change,
    register_operation,
    require_agent,
)
from sshwarma.world import movement, owners
from sshwarma.world.world import World


@register_operation
async def agents_list(world: World, /) -> Json:
    """Agents with role, keys and connections, except those of removed models."""
    return [
        {
            "name": agent.name,
            "kind": agent.kind,
            "role": agent.role,
            "disabled": agent.disabled,
            "keys": len(world.agents.keys_of(agent.id)),
            "connections": len(world.presence.connections_of(agent.id)),
        }
        for agent in sorted(world.agents, key=lambda agent: agent.name)
        if not agent.retired
    ]


@register_operation
async def agents_role(world: World, /, name: str, role: str) -> Json:
    """Give an agent a server role."""
    agent = require_agent(world, name)
    await audited_change(
        world, f"agents role {name} {role}", lambda tx: owners.set_agent_role(tx, agent.id, role)
    )
    for room_id in movement.rooms_with(world, agent.id):
        await movement.evict_if_closed(world, agent.id, room_id)
    return {"name": agent.name, "role": role}


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
    word = "disable" if disabled else "enable"
    await audited_change(
        world, f"agents {word} {name}", lambda tx: owners.set_agent_disabled(tx, agent.id, disabled)
    )
    return {"name": agent.name, "disabled": disabled}
