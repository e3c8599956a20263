"""Agents of the models of the settings file: made, found again and retired."""

from __future__ import annotations

from collections.abc import Container

import structlog

from sshwarma.world import agents, things
from sshwarma.world.agents import Agent
from sshwarma.world.errors import WorldError
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


async def enlist_agent(
    world: World, name: str, description: str, prompt: str, rooms: tuple[str, ...] = ()
) -> Agent | WorldError:
    """Return the agent of a model, made or updated; else why it is skipped."""
    try:
        return await world.change(
            lambda tx: _find_or_create_agent(tx, world, name, description, prompt, rooms)
        )
    except WorldError as error:
        log.warning("a model was skipped", model=name, reason=str(error))
        return error


async def retire_agents(world: World, answering: Container[str]) -> None:
    """Mark the agents of models that no longer exist.

    They stay, so that messages have a name. `answering` has the ids of those that answer.
    """
    ids = [
        agent.id
        for agent in world.agents
        if agent.kind == "model"
        and agent.id not in answering
        and not (agent.model or agent.retired)
    ]

    def retire(tx: Change) -> None:
        for agent_id in ids:
            agents.update_agent(tx, agent_id, retired=True)

    if ids:
        await world.change(retire)


def _find_or_create_agent(
    tx: Change, world: World, name: str, description: str, prompt: str, rooms: tuple[str, ...]
) -> Agent:
    agent = world.agents.find_by_name(name)
    if agent is None:
        agent = agents.create_agent(tx, name, role="guest", kind="model")
    elif agent.kind != "model":
        raise WorldError(f"{name} is already the name of {things.describe_kind(agent.kind)}.")
    if agent.description != description:
        things.update_thing(tx, agent.id, structural=False, description=description)
    if agent.prompt != prompt or agent.rooms != frozenset(rooms) or agent.retired:
        agents.update_agent(
            tx, agent.id, prompt=prompt or None, rooms=list(rooms) or None, retired=None
        )
    return agent
