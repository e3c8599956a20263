"""The models of a server: from its settings to agents that stand in the tree and backends that
answer for them."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from sshwarma.models.backends import ModelBackend
from sshwarma.settings import ModelSettings
from sshwarma.world import agents, things
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Refused
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


async def enlist(world: World, models: Sequence[ModelSettings]) -> dict[str, ModelBackend]:
    """Make an agent of each model that has none yet, keep those that have up to date, and return
    the backends by agent id. A model whose name cannot be had is left out, with a warning."""
    backends: dict[str, ModelBackend] = {}
    for settings in models:
        try:
            agent = await world.change(lambda tx, s=settings: _agent_of(tx, world, s))  # type: ignore[misc]
        except Refused as refused:
            log.warning("a model was left out", model=settings.name, reason=str(refused))
            continue
        backends[agent.id] = ModelBackend(settings)
    return backends


def _agent_of(tx: Change, world: World, settings: ModelSettings) -> Agent:
    known = world.agents.named(settings.name)
    if known is None:
        known = agents.create(tx, settings.name, role="guest", kind="model")
        things.change(
            tx, known.id, structural=False, description=f"{settings.model} by {settings.kind}"
        )
    elif known.kind != "model":
        raise Refused(f"{settings.name} is the name of a {known.kind}.")
    if known.prompt != settings.prompt:
        agents.remember(tx, known.id, prompt=settings.prompt or None)
    return known
