"""The models of a server: from its settings to agents that stand in the tree and backends that
answer for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from sshwarma.models.backends import ModelBackend
from sshwarma.models.guide import Guide
from sshwarma.settings import ModelSettings
from sshwarma.world import agents, things
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Refused
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


GUIDE = "guide"
GUIDE_IS = "Answers from the help and looks around for you. No model."


async def enlist(world: World, models: Sequence[ModelSettings]) -> dict[str, ModelBackend]:
    """Make an agent of each model that has none yet, keep those that have up to date, and return
    the backends by agent id. A model whose name cannot be had is left out, with a warning."""
    backends: dict[str, ModelBackend] = {}
    for settings in models:
        described = f"{settings.model} by {settings.kind}"
        agent = await _enlisted(world, settings.name, described, settings.prompt)
        if agent is not None:
            backends[agent.id] = ModelBackend(settings)
    return backends


async def enlist_guide(world: World, topics: Mapping[str, str]) -> dict[str, Guide]:
    """The same for the built-in guide; none if somebody else has its name."""
    agent = await _enlisted(world, GUIDE, GUIDE_IS, "")
    return {} if agent is None else {agent.id: Guide(topics)}


async def _enlisted(world: World, name: str, description: str, prompt: str) -> Agent | None:
    try:
        return await world.change(lambda tx: _agent_of(tx, world, name, description, prompt))
    except Refused as refused:
        log.warning("a model was left out", model=name, reason=str(refused))
        return None


def _agent_of(tx: Change, world: World, name: str, description: str, prompt: str) -> Agent:
    known = world.agents.named(name)
    if known is None:
        known = agents.create(tx, name, role="guest", kind="model")
    elif known.kind != "model":
        raise Refused(f"{name} is the name of a {known.kind}.")
    if known.description != description:
        things.change(tx, known.id, structural=False, description=description)
    if known.prompt != prompt:
        agents.remember(tx, known.id, prompt=prompt or None)
    return known
