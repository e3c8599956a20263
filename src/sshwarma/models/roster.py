"""The models of a world: which agents are answered for, by which backends, under which settings.

There are three kinds. Those of the settings file are as the file says while the server runs. Those
that owners added by verb have their settings in their agent's metadata, and are followed there: a
change of the agent, from wherever it came, is a change of its backend. The guide is built in.
Settings say where a key is (a variable, a 0600 file); the key itself is nowhere in the world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import structlog
from pydantic import ValidationError

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import MAX_ADDED_MODELS
from sshwarma.models import prices
from sshwarma.models.backend import Backend, BackendError
from sshwarma.models.budget import BudgetLimits
from sshwarma.models.guide import GuideBackend
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.settings import ModelSettings
from sshwarma.world import agents, things
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, Invalid, WorldError
from sshwarma.world.events import AgentsChanged
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

Origin = Literal["file", "verb", "built in"]

GUIDE_NAME: Final = "guide"
GUIDE_DESCRIPTION: Final = "Answers from the help and looks around for you. No model."


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """One who answers. `settings` is None for the guide."""

    agent_id: str
    backend: Backend
    origin: Origin
    settings: ModelSettings | None = None

    @property
    def limits(self) -> BudgetLimits:
        if self.settings is None:
            return BudgetLimits()
        if self.origin == "file":
            return BudgetLimits.of(self.settings, "the operator can change {} in sshwarma.toml")
        change = f"an owner can change it with /model set {self.settings.name} {{}}"
        return BudgetLimits.of(self.settings, change)


class Roster(Mapping[str, Backend]):
    """The backends by the ids of their agents. Made by `await Roster.open(...)`; ended by
    `close`."""

    def __init__(self, world: World, environ: Mapping[str, str]) -> None:
        self._world = world
        self._environ = environ
        self._entries: dict[str, RosterEntry] = {}
        self._background = BackgroundTasks()
        self._stop = world.bus.on(AgentsChanged, self._changed)

    @classmethod
    async def open(
        cls,
        world: World,
        models: Sequence[ModelSettings],
        topics: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> Roster:
        """The roster of a world: models of the settings, those added by verb, and the guide, who
        answers from `topics`. One whose name cannot be had is left out, with a warning."""
        roster = cls(world, environ)
        guide = await _enlist_agent(world, GUIDE_NAME, GUIDE_DESCRIPTION, "")
        if guide is not None:
            roster._entries[guide.id] = RosterEntry(guide.id, GuideBackend(topics), "built in")
        for settings in models:
            agent = await _enlist_agent(
                world, settings.name, describe_model(settings), settings.prompt
            )
            if agent is not None:
                roster._install(agent.id, "file", settings)
        for agent in world.agents:
            roster._follow(agent)
        return roster

    # As a mapping.

    def __getitem__(self, agent_id: str) -> Backend:
        return self._entries[agent_id].backend

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    # What is known of them.

    @property
    def environ(self) -> Mapping[str, str]:
        """Where keys are looked for."""
        return self._environ

    def entry(self, agent_id: str) -> RosterEntry | None:
        """Who answers for an agent, if anybody does."""
        return self._entries.get(agent_id)

    def entries(self) -> list[RosterEntry]:
        """All who answer, by name."""
        name = self._world.agents.name_of
        return sorted(self._entries.values(), key=lambda entry: name(entry.agent_id))

    def limits(self, agent_id: str) -> BudgetLimits:
        """The limits of an agent's turns."""
        entry = self._entries.get(agent_id)
        return entry.limits if entry else BudgetLimits()

    # Units of work, for whoever changes them.

    def add(self, tx: Change, settings: ModelSettings, created_by: str | None) -> Agent:
        """Let a model answer: a new agent, or one that answered before and was removed.

        Raises:
            Conflict: if it answers already, or somebody else has its name.
            Invalid: if nobody may have it.
        """
        added = things.read_children(tx.conn, "agents", "agent")
        if sum("model" in thing.metadata for thing in added) >= MAX_ADDED_MODELS:
            raise Conflict(
                f"There are {MAX_ADDED_MODELS} models already; /model remove makes room."
            )
        known = next((thing for thing in added if thing.name == settings.name), None)
        if known is None:
            agent = agents.create_agent(
                tx, settings.name, role="guest", kind="model", created_by=created_by
            )
        else:
            agent = Agent.of(known)
            self._is_free(agent)
        _store_settings(tx, agent.id, settings)
        if agent.disabled:
            agents.set_agent_disabled(tx, agent.id, False)
        return agent

    def change(
        self, tx: Change, agent_id: str, before: ModelSettings, after: ModelSettings
    ) -> None:
        """Give a model that was added by verb other settings. Answers that are being given end
        with the old ones.

        Raises:
            Conflict: if its settings are no longer those of `before`.
        """
        stored = Agent.of(things.get_live_thing(tx.conn, agent_id))
        if not stored.model or _read_settings(stored) != before:
            raise Conflict(f"{stored.name} was changed just now.", hint="/model show shows how.")
        _store_settings(tx, agent_id, after)

    def remove(self, tx: Change, agent_id: str) -> None:
        """Take a model off the roster. Its agent stays, so that what it said keeps its name."""
        agents.update_agent(tx, agent_id, model=None)

    def _is_free(self, agent: Agent) -> None:
        if agent.kind != "model":
            raise Conflict(f"{agent.name} is the name of a {agent.kind}.")
        entry = self._entries.get(agent.id)
        if agent.model or entry is not None:
            where = {"file": " from sshwarma.toml", "built in": ", built in"}
            raise Conflict(
                f"{agent.name} answers already{where.get(entry.origin, '') if entry else ''}.",
                hint="Choose another name; /model set changes one that was added by verb.",
            )

    # Following.

    def _changed(self, event: AgentsChanged) -> None:
        agent = self._world.agents.get(event.agent_id)
        if agent is None:
            self._drop(event.agent_id)
        else:
            self._follow(agent)

    def _follow(self, agent: Agent) -> None:
        """Make the backend of an agent what its metadata says."""
        entry = self._entries.get(agent.id)
        if entry is not None and entry.origin != "verb":
            return
        if agent.kind != "model" or not agent.model:
            self._drop(agent.id)
            return
        try:
            settings = _read_settings(agent)
        except (ValidationError, TypeError) as error:
            log.warning(
                "a model was left out", model=agent.name, reason=describe_settings_error(error)
            )
            self._drop(agent.id)
            return
        if entry is None or entry.settings != settings:
            self._install(agent.id, "verb", settings)

    def _install(self, agent_id: str, origin: Origin, settings: ModelSettings) -> None:
        self._drop(agent_id)
        backend = PydanticAIBackend(settings, self._environ)
        self._entries[agent_id] = RosterEntry(agent_id, backend, origin, settings)
        self._background.spawn(_preload_backend(backend))

    def _drop(self, agent_id: str) -> None:
        entry = self._entries.pop(agent_id, None)
        if entry is not None and isinstance(entry.backend, PydanticAIBackend):
            self._background.spawn(entry.backend.retire())

    async def close(self) -> None:
        """Close the connections of all backends."""
        self._stop()
        for agent_id in list(self._entries):
            self._drop(agent_id)
        await self._background.join()


def describe_model(settings: ModelSettings) -> str:
    """What people read of a model: `qwen3:8b by ollama`."""
    if settings.kind == "compatible":  # a way of speaking, and nobody who serves models
        return settings.model
    return f"{settings.model} by {settings.kind}"


async def check_price(settings: ModelSettings) -> None:
    """Refuse a cost limit that could not be held.

    Raises:
        Invalid: if there is one and the price of the model is not known.
    """
    limits = [name for name in ("turn_cost", "day_cost") if getattr(settings, name) is not None]
    if limits and not await asyncio.to_thread(prices.is_price_known, settings):
        raise Invalid(
            f"The price of {describe_model(settings)} is not known, so {' and '.join(limits)}"
            " could not be held.",
            hint="Set price_in and price_out first: US dollars for a million tokens.",
        )


def describe_settings_error(error: ValidationError | TypeError) -> str:
    """What is wrong with settings, each field by name; no value is repeated."""
    if isinstance(error, TypeError):
        return "what is stored of it cannot be read"
    found = error.errors(include_url=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'settings'}: {each['msg']}" for each in found
    )


async def _preload_backend(backend: PydanticAIBackend) -> None:
    """Have a model's libraries and key ready before somebody mentions it: that takes seconds."""
    try:
        await backend.ready()
        await check_price(backend.settings)
    except (BackendError, Invalid) as failed:
        log.warning("a model cannot answer", model=backend.model, reason=str(failed))


def _read_settings(agent: Agent) -> ModelSettings:
    return ModelSettings(**agent.model, name=agent.name, prompt=agent.prompt)


def _store_settings(tx: Change, agent_id: str, settings: ModelSettings) -> None:
    """Keep settings in an agent's metadata: what differs from the defaults, and no key."""
    kept = settings.model_dump(mode="json", exclude_defaults=True, exclude={"name", "prompt"})
    things.update_thing(tx, agent_id, structural=False, description=describe_model(settings))
    agents.update_agent(tx, agent_id, model=kept, prompt=settings.prompt or None)


async def _enlist_agent(world: World, name: str, description: str, prompt: str) -> Agent | None:
    try:
        return await world.change(
            lambda tx: _find_or_create_agent(tx, world, name, description, prompt)
        )
    except WorldError as refused:
        log.warning("a model was left out", model=name, reason=str(refused))
        return None


def _find_or_create_agent(
    tx: Change, world: World, name: str, description: str, prompt: str
) -> Agent:
    known = world.agents.named(name)
    if known is None:
        known = agents.create_agent(tx, name, role="guest", kind="model")
    elif known.kind != "model":
        raise WorldError(f"{name} is the name of a {known.kind}.")
    if known.description != description:
        things.update_thing(tx, known.id, structural=False, description=description)
    if known.prompt != prompt:
        agents.update_agent(tx, known.id, prompt=prompt or None)
    return known
