"""Roster of a world's models: agents, their backends and settings.

There are three kinds. Models of the settings file change when it is reloaded. Models that owners
add by verb have their settings in their agent's metadata; any change of the agent updates
its backend. The guide is built in. Settings name the place of a key (a variable or a file of mode
0600); the key itself is not stored in the world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog
from pydantic import ValidationError

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import MAX_ADDED_MODELS
from sshwarma.models import prices
from sshwarma.models.backend import Backend, BackendError
from sshwarma.models.budget import BudgetLimits
from sshwarma.models.guide import GuideBackend
from sshwarma.models.how_to import HowTo
from sshwarma.models.model_agents import enlist_agent, retire_agents
from sshwarma.models.model_downloads import ModelDownloads
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.settings import ModelSettings, describe_value_error
from sshwarma.world import agents, owners, things
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, Invalid, Unavailable, WorldError
from sshwarma.world.events import AgentsChanged
from sshwarma.world.names import BUILT_IN_MODEL
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

Origin = Literal["file", "verb", "built in"]

GUIDE_DESCRIPTION: Final = "Answers from the help and looks around for you. Not a language model."


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """A model of the roster; `settings` is None for the guide."""

    agent_id: str
    backend: Backend
    origin: Origin
    settings: ModelSettings | None = None

    @property
    def limits(self) -> BudgetLimits:
        """Budget limits of the model, with how to change them."""
        if self.settings is None:
            return BudgetLimits()
        if self.origin == "file":
            return BudgetLimits.from_settings(
                self.settings, "the operator can change {} in sshwarma.toml"
            )
        return BudgetLimits.from_settings(
            self.settings, "an owner can change its {} (verb model set)"
        )


class Roster(Mapping[str, Backend]):
    """Mapping of agent ids to backends.

    Create it with `await Roster.open(...)`; end it with `close`.

    Attributes:
        skipped: Why models of the settings are not in force, by their names.
        models_dir: Folder of the files that were downloaded for models of kind local.
        downloads: Downloads into it.
    """

    def __init__(self, world: World, environ: Mapping[str, str], models_dir: Path) -> None:
        self.skipped: Mapping[str, str] = {}
        self.models_dir = models_dir
        self._world = world
        self._environ = environ
        self._entries: dict[str, RosterEntry] = {}
        self._guide: RosterEntry | None = None
        self._background = BackgroundTasks()
        self.downloads = ModelDownloads(world, models_dir, self._reload)
        self._stop = world.bus.on_event(AgentsChanged, self._on_agents_changed)

    @classmethod
    async def open(
        cls,
        world: World,
        models: Sequence[ModelSettings],
        topics: Mapping[str, str],
        how_tos: Sequence[HowTo],
        environ: Mapping[str, str],
        models_dir: Path,
    ) -> Roster:
        """Open the roster: models of the settings, models added by verb, and the guide.

        The guide answers from `how_tos` and `topics`; `models_dir` holds downloads. A model is
        skipped with a warning if its name is in use, or the disk is full.
        """
        roster = cls(world, environ, models_dir)
        guide = await enlist_agent(world, BUILT_IN_MODEL, GUIDE_DESCRIPTION, "")
        if not isinstance(guide, WorldError):
            backend = GuideBackend(topics, how_tos)
            roster._guide = RosterEntry(guide.id, backend, "built in")
        await roster.adopt(models)
        await roster.downloads.resume()
        return roster

    async def adopt(self, models: Sequence[ModelSettings]) -> dict[str, str]:
        """Make these the models of the settings; running answers keep theirs.

        A model with a key file is made again even if nothing changed, because the file may have.

        Returns:
            Why models were skipped, a sentence for each name: it is in use, or the world cannot be
            written to. One that runs stays then as it was.
        """
        kept: set[str] = set()
        problems: dict[str, str] = {}
        for settings in models:
            if settings.name.lower() == BUILT_IN_MODEL:
                problems[settings.name] = f"{BUILT_IN_MODEL} is the model that is built in."
                continue
            agent = await enlist_agent(
                self._world,
                settings.name,
                describe_model(settings),
                settings.prompt,
                settings.rooms,
            )
            if isinstance(agent, WorldError):
                problems[settings.name] = str(agent)
                known = self._world.agents.find_by_name(settings.name)
                if known is not None and isinstance(agent, Unavailable):
                    kept.add(known.id)
                continue
            kept.add(agent.id)
            entry = self._entries.get(agent.id)
            is_same = entry is not None and (entry.origin, entry.settings) == ("file", settings)
            if not is_same or settings.key_file is not None:
                self._install(agent.id, "file", settings)
        for entry in self.entries():
            if entry.origin == "file" and entry.agent_id not in kept:
                self._drop(entry.agent_id)
        if self._guide is not None:
            self._entries.setdefault(self._guide.agent_id, self._guide)
        for agent in self._world.agents:
            self._follow(agent)
        try:
            await retire_agents(self._world, self._entries)
        except Unavailable as error:  # they do not answer; a later start or reload marks them
            log.warning("models that are gone were not marked", reason=str(error))
        self.skipped = problems
        return problems

    # As a mapping.

    def __getitem__(self, agent_id: str) -> Backend:
        return self._entries[agent_id].backend

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    # Entries.

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that holds the keys."""
        return self._environ

    def entry(self, agent_id: str) -> RosterEntry | None:
        """Return the entry of an agent, or None."""
        return self._entries.get(agent_id)

    def entries(self) -> list[RosterEntry]:
        """Return all entries, sorted by name."""
        name = self._world.agents.name_of
        return sorted(self._entries.values(), key=lambda entry: name(entry.agent_id))

    def limits(self, agent_id: str) -> BudgetLimits:
        """Return the limits of an agent's turns."""
        entry = self._entries.get(agent_id)
        return entry.limits if entry else BudgetLimits()

    # Units of work that change the roster.

    def add(self, tx: Change, settings: ModelSettings, created_by: str | None) -> Agent:
        """Add a model: create its agent, or reuse that of a removed model.

        Raises:
            Conflict: if the model exists, its name is in use, or MAX_ADDED_MODELS is reached.
            Invalid: if the name is not valid.
        """
        agent_things = things.read_children(tx.conn, "agents", "agent")
        if sum("model" in thing.metadata for thing in agent_things) >= MAX_ADDED_MODELS:
            raise Conflict(
                f"A world can have at most {MAX_ADDED_MODELS} added models.",
                hint=next_call("Remove one with {}.", "model remove", name="NAME"),
            )
        agent_thing = next((thing for thing in agent_things if thing.name == settings.name), None)
        if agent_thing is None:
            agent = agents.create_agent(
                tx, settings.name, role="guest", kind="model", created_by=created_by
            )
        else:
            agent = Agent.from_thing(agent_thing)
            self._check_name_free(agent)
        _store_settings(tx, agent.id, settings)
        if agent.disabled:
            owners.set_agent_disabled(tx, agent.id, False)
        return agent

    def change(
        self, tx: Change, agent_id: str, before: ModelSettings, after: ModelSettings
    ) -> None:
        """Change the settings of an added model; running answers keep the old ones.

        Raises:
            Conflict: if its current settings are not `before`.
        """
        agent = Agent.from_thing(things.get_live_thing(tx.conn, agent_id))
        if not agent.model or _read_settings(agent) != before:
            raise Conflict(
                f"{agent.name} was changed by somebody else at the same time. Try again.",
                hint=next_call("See {}.", "model show", name=agent.name),
            )
        _store_settings(tx, agent_id, after)

    def remove(self, tx: Change, agent_id: str) -> None:
        """Remove a model; its agent stays, so that its messages keep its name."""
        agents.update_agent(tx, agent_id, model=None, retired=True)

    def _check_name_free(self, agent: Agent) -> None:
        if agent.kind != "model":
            kind = things.describe_kind(agent.kind)
            raise Conflict(f"{agent.name} is already the name of {kind}.")
        entry = self._entries.get(agent.id)
        if agent.model or entry is not None:
            origins = {"file": " in sshwarma.toml", "built in": " (built in)"}
            origin = origins.get(entry.origin, "") if entry else ""
            raise Conflict(
                f"Model {agent.name} already exists{origin}.",
                hint=(
                    "Choose another name.",
                    next_call("Or change it with {}.", "model show", name=agent.name),
                ),
            )

    # Updates.

    def _on_agents_changed(self, event: AgentsChanged) -> None:
        agent = self._world.agents.get(event.agent_id)
        if agent is None:
            self._drop(event.agent_id)
        else:
            self._follow(agent)

    def _follow(self, agent: Agent) -> None:
        """Update the backend of an agent from its metadata."""
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
                "a model was skipped", model=agent.name, reason=describe_settings_error(error)
            )
            self._drop(agent.id)
            return
        if entry is None or entry.settings != settings:
            self._install(agent.id, "verb", settings)

    def _install(self, agent_id: str, origin: Origin, settings: ModelSettings) -> None:
        self._drop(agent_id)
        backend = PydanticAIBackend(settings, self._environ, self.models_dir)
        self._entries[agent_id] = RosterEntry(agent_id, backend, origin, settings)
        self._background.spawn(_preload_backend(backend))

    def _drop(self, agent_id: str) -> None:
        entry = self._entries.pop(agent_id, None)
        if entry is not None:
            self._background.spawn(entry.backend.retire())

    def _reload(self, agent_id: str) -> bool:
        """Load a model again whose file has arrived; return whether it is still listed."""
        entry = self._entries.get(agent_id)
        if entry is None or entry.settings is None:
            return False
        self._install(agent_id, entry.origin, entry.settings)
        return True

    async def close(self) -> None:
        """Close the connections of all backends; a download is given up."""
        self._stop()
        await self.downloads.close()
        for agent_id in list(self._entries):
            self._drop(agent_id)
        await self._background.join()


def describe_model(settings: ModelSettings) -> str:
    """Describe a model for people, as in `qwen3:8b by ollama`."""
    if settings.kind == "compatible":  # a protocol, not a provider
        return settings.model
    return f"{settings.model} by {settings.kind}"


async def check_price(settings: ModelSettings) -> None:
    """Raise if a cost limit cannot be enforced.

    Raises:
        Invalid: if the settings have one and the price of the model is unknown.
    """
    limits = [name for name in prices.COST_LIMITS if getattr(settings, name) is not None]
    if limits and not await asyncio.to_thread(prices.is_price_known, settings):
        raise Invalid(
            f"The price of {describe_model(settings)} is unknown, so {' and '.join(limits)}"
            " cannot be enforced.",
            hint="Set price_in and price_out first (US dollars per million tokens).",
        )


def describe_settings_error(error: ValidationError | TypeError) -> str:
    """Describe invalid settings by field, without their values."""
    if isinstance(error, TypeError):
        return "its stored settings are invalid"
    details = error.errors(include_url=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, detail['loc'])) or 'settings'}: "
        f"{describe_value_error(detail, show_value=False)}"
        for detail in details
    )


async def _preload_backend(backend: PydanticAIBackend) -> None:
    """Load a model's libraries and key before its first mention: that takes seconds."""
    try:
        await backend.preload()
        await check_price(backend.settings)
    except (BackendError, Invalid) as error:
        agent = backend.settings.name
        log.warning("a model cannot answer", agent=agent, model=backend.model, reason=str(error))


def _read_settings(agent: Agent) -> ModelSettings:
    return ModelSettings(**agent.model, name=agent.name, prompt=agent.prompt)


def _store_settings(tx: Change, agent_id: str, settings: ModelSettings) -> None:
    """Store settings in an agent's metadata: non-default values, never a key."""
    values = settings.model_dump(mode="json", exclude_defaults=True, exclude={"name", "prompt"})
    things.update_thing(tx, agent_id, structural=False, description=describe_model(settings))
    agents.update_agent(
        tx,
        agent_id,
        model=values,
        prompt=settings.prompt or None,
        rooms=list(settings.rooms) or None,
        retired=None,
    )
