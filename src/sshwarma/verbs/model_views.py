"""Views of models: the roster, one model, a test, and models that can be added."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from sshwarma.models.backend import BackendError
from sshwarma.models.budget import UsageTotal
from sshwarma.models.roster import Roster, RosterEntry, describe_model
from sshwarma.models.secrets import describe_key_location, read_key
from sshwarma.services import services_of
from sshwarma.settings import ModelSettings
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.verbs.model_values import LIMIT_FIELDS, OTHER_FIELDS, format_price, read_values
from sshwarma.verbs.views import draw_columns, format_duration, view, view_for_reader
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class RosterListItem:
    """A model of the roster. `cost_today`: US dollars; None if a price is unknown."""

    name: str
    model: str
    origin: str
    state: str
    tokens_today: int
    cost_today: float | None


@dataclass(frozen=True, slots=True)
class ModelRoster:
    """The models of this server, with their usage today."""

    models: tuple[RosterListItem, ...]


@view_for_reader(ModelRoster)
def draw_model_roster(roster: ModelRoster, reader: Reader) -> Block:
    """Draw the models of this server, with their states and usage today."""
    if not roster.models:
        hint = reader.hint(" {} shows what could.", "model found")
        return block(f"No model answers here.{hint}")
    return block(
        line(("heading", "Models:")),
        *draw_columns(
            (
                ("model", f"@{model.name}"),
                model.model,
                ("dim", ORIGIN_TITLES[model.origin]),
                _format_usage(model.tokens_today, model.cost_today),
                ("warn" if model.state != "answers" else "ok", model.state),
            )
            for model in roster.models
        ),
    )


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """All details of one model, except its key."""

    name: str
    kind: str
    model: str
    address: str
    origin: str
    state: str
    key: str
    prompt: str
    price: str
    settings: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str], ...]
    tokens_today: int
    cost_today: float | None
    last_error: str


@view(ModelDetails)
def draw_model_details(model: ModelDetails) -> Block:
    """Draw a model's state, then its settings, by the names that /model set takes."""
    state = [
        ("key", model.key),
        ("price", model.price),
        ("today", _format_usage(model.tokens_today, model.cost_today)),
        ("defined", model.origin),
        ("last error", model.last_error or "none"),
    ]
    settings = [
        ("kind", model.kind),
        ("model", model.model),
        ("base_url", model.address),
        *model.settings,
        *model.limits,
    ]
    if model.kind and not model.prompt:
        settings.append(("prompt", "none"))
    lines: list[Line] = [
        line(("model", f"@{model.name}"), ("dim", f"  {model.state}")),
        *draw_columns(((("dim", name), text) for name, text in state if text)),
        line(("heading", "Settings:")),
        *draw_columns(((("mark", name), text) for name, text in settings if text)),
    ]
    if model.prompt:
        lines += [line("  ", ("mark", "prompt")), *text_lines(model.prompt, indent=4)]
    return block(*lines)


@dataclass(frozen=True, slots=True)
class ModelTestResult:
    """The result of a test request: one word, and how long it took, in seconds."""

    name: str
    text: str
    first_seconds: float
    seconds: float
    tokens: int
    cost: float | None


@view(ModelTestResult)
def draw_model_test_result(tested: ModelTestResult) -> Block:
    """Draw the result of a test request to a model."""
    timing = f"first token after {tested.first_seconds:.2f} s, all after {tested.seconds:.2f} s"
    return block(
        line(("model", tested.name), ": ", tested.text, hang=2),
        line(("dim", f"{timing}; {_format_usage(tested.tokens, tested.cost)}")),
    )


@dataclass(frozen=True, slots=True)
class DetectedModel:
    """A model that could be added, and the arguments of `model add` that add it.

    `about` describes it; `url` is None if it is the usual one.
    """

    name: str
    about: str
    kind: str
    model: str
    url: str | None


@dataclass(frozen=True, slots=True)
class DetectedModels:
    """Models that the server can reach and that are not on the roster."""

    offers: tuple[DetectedModel, ...]


@view_for_reader(DetectedModels)
def draw_detected_models(models: DetectedModels, reader: Reader) -> Block:
    """Draw the models that could be added, each with the call that adds it."""
    if not models.offers:
        hint = reader.hint(
            " {} adds a tiny one that needs neither.", "model add", name="smol", kind="local"
        )
        return block(
            "Nothing new was found: no key of a provider in the server's environment, and no"
            f" ollama or llama.cpp on its machine.{hint}"
        )
    return block(
        line(("heading", "Models that could answer:")),
        *(
            row
            for offer in models.offers
            for row in (
                line("  ", offer.about),
                line("    ", ("verb", _name_addition(offer, reader)), hang=6),
            )
        ),
    )


def _name_addition(offer: DetectedModel, reader: Reader) -> str:
    return reader.name_call(
        "model add", name=offer.name, kind=offer.kind, model=offer.model, url=offer.url
    )


async def list_roster(caller: Caller, roster: Roster) -> ModelRoster:
    """List every model of the roster, with its usage today."""
    models = []
    for entry in roster.entries():
        agent = caller.world.agents.get(entry.agent_id)
        if agent is not None:
            usage = await _read_usage_today(caller, agent)
            models.append(
                RosterListItem(
                    name=agent.name,
                    model=describe_model(entry.settings) if entry.settings else "rules",
                    origin=entry.origin,
                    state=_describe_state(entry, agent),
                    tokens_today=usage.tokens,
                    cost_today=entry.limits.estimate_cost(usage),
                )
            )
    return ModelRoster(tuple(models))


MIN_ROUNDED_COST: Final = 0.01
"""US dollars from which a cost is shown with four decimals."""

ORIGIN_TITLES: Final = {
    "file": "settings file",
    "verb": "added by an owner",
    "built in": "built in",
}
"""Where a model is defined, by its origin, in the list of models."""


async def read_model_details(
    caller: Caller, roster: Roster, entry: RosterEntry, agent: Agent
) -> ModelDetails:
    """Read all details of one model; of its key only the location."""
    settings, usage = entry.settings, await _read_usage_today(caller, agent)
    origin = {
        "file": "defined in sshwarma.toml; change it there",
        "verb": "added by an owner",
        "built in": "built in",
    }[entry.origin]
    if settings is None:
        return ModelDetails(
            name=agent.name,
            kind="",
            model=entry.backend.model,
            address="",
            origin=origin,
            state=_describe_state(entry, agent),
            key="",
            prompt="",
            price="",
            settings=(),
            limits=(),
            tokens_today=usage.tokens,
            cost_today=entry.limits.estimate_cost(usage),
            last_error="",
        )
    failure = entry.backend.last_failure
    last_error = (
        f"{format_duration(time.time() - failure.failed_at)} ago: {failure.message}"
        if failure
        else ""
    )
    values = await read_values(entry, settings)
    return ModelDetails(
        name=agent.name,
        kind=settings.kind,
        model=settings.model,
        address=values["base_url"],
        origin=origin,
        state=_describe_state(entry, agent),
        key=await _describe_key(roster, settings),
        prompt=settings.prompt,
        price=await format_price(settings),
        settings=tuple((name, values[name]) for name in OTHER_FIELDS),
        limits=tuple((name, values[name]) for name in LIMIT_FIELDS),
        tokens_today=usage.tokens,
        cost_today=entry.limits.estimate_cost(usage),
        last_error=last_error,
    )


def _describe_state(entry: RosterEntry, agent: Agent) -> str:
    if agent.disabled:
        return "disabled"
    return "could not answer" if entry.backend.is_failing else "answers"


async def _describe_key(roster: Roster, settings: ModelSettings) -> str:
    location = describe_key_location(settings)
    if not location:
        return "not needed"
    problem = await explain_missing_key(roster, settings)
    return f"not found: {problem}" if problem else f"found in {location}"


async def explain_missing_key(roster: Roster, settings: ModelSettings) -> str:
    """Explain why the key is missing; return "" if it exists or is not needed."""
    try:
        await asyncio.to_thread(read_key, settings, roster.environ)
    except BackendError as error:
        return str(error)
    return ""


async def _read_usage_today(caller: Caller, agent: Agent) -> UsageTotal:
    return await services_of(caller).budgets.usage_today(agent.id)


def _format_usage(tokens: int, cost: float | None) -> str:
    if cost is None:
        return f"{tokens} tokens, cost unknown"
    # As the refusal of a limit says it: a small cost is not rounded to nothing.
    shown = f"{cost:.4g}" if 0 < cost < MIN_ROUNDED_COST else f"{cost:.4f}"
    return f"{tokens} tokens, ${shown}"
