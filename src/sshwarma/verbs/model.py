"""The roster: owners let models answer, change what they are asked with, and take them off."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import aclosing
from typing import Any, Final, Literal

from pydantic import ValidationError

from sshwarma.common.limits import MODEL_TEST_TIMEOUT_SECONDS
from sshwarma.common.secret_detection import has_key_prefix, looks_like_key
from sshwarma.models.backend import BackendError, Message, StepRequest, TextDelta, TokenUsage
from sshwarma.models.budget import BudgetExceeded, ModelBudgets, TurnBudget
from sshwarma.models.discover import discover_models
from sshwarma.models.providers import base_url_of
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.models.roster import Roster, RosterEntry, check_price, describe_model
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.settings import ModelSettings
from sshwarma.verbs.arguments import AgentName, Word
from sshwarma.verbs.arguments import Text as Rest
from sshwarma.verbs.grammar import describe_error
from sshwarma.verbs.model_views import (
    DetectedModel,
    DetectedModels,
    ModelDetails,
    ModelRoster,
    ModelTestResult,
    explain_missing_key,
    format_setting,
    list_roster,
    read_model_details,
)
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation
from sshwarma.world import agents, names, usage
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound, Unavailable

ModelAction = Literal["list", "show", "add", "set", "remove", "on", "off", "test", "found"]

MODEL_FIELDS: Final = tuple(name for name in ModelSettings.model_fields if name != "name")
"""What /model set sets."""

TEST_PROMPT: Final = "Answer with one word: ready"
MAX_TEST_CHARACTERS: Final = 200

KEY_IN_LINE_MESSAGE: Final = (
    "A key does not belong in a line. Put it into a variable of the server's environment, and"
    " give its name with --key-env; or into a file of mode 0600, and give its path with --key-file."
)


@verb(
    "model",
    group="Models",
    needs=Right.OWN,
    tool=False,
    examples=(
        "/model",
        "/model found",
        "/model add qwen ollama qwen3:8b",
        "/model add opus anthropic claude-opus-5 --key-file /etc/sshwarma/anthropic.key",
        "/model set qwen prompt You are terse.",
        "/model set opus turn_cost 0.50",
        "/model show opus",
        "/model test qwen",
        "/model off qwen",
        "/model remove qwen",
    ),
)
async def model(
    caller: Caller,
    what: ModelAction = "list",
    name: AgentName | None = None,
    field: Word | None = None,
    value: Word | None = None,
    text: Rest | None = None,
    *,
    url: Word | None = None,
    key_env: Word | None = None,
    key_file: Word | None = None,
    prompt: Word | None = None,
) -> ModelRoster | ModelDetails | ModelTestResult | DetectedModels | Confirmation:
    """Let models answer, and change or end that

    list: who answers, and what each has used today. show: all of one. found: what could be added.
    add: NAME KIND MODEL lets one answer, at once and after a restart. set: NAME FIELD VALUE
    changes one; - as the value takes the default back, none is no limit. remove: it answers no
    more; what it said keeps its name. off, on: for a while. test: asks for one word.

    KIND is openai, openai-responses, anthropic, google, ollama, llamacpp or compatible. A key is
    never typed: it is in the server's environment or in a 0600 file. Models of sshwarma.toml are
    changed there. /models shows everybody who answers.

    what: list, show, add, set, remove, on, off, test or found.
    name: the model's name, as in @NAME.
    field: for add, the kind; for set, a setting, as /model show names it.
    value: for add, what its server calls the model; for set, the value.
    text: more of the value; for add, the prompt, as from a pipe.
    url: where its server is, if not at the usual place.
    key_env: the environment variable that holds the key, if not the usual one.
    key_file: a 0600 file that holds the key.
    prompt: what it is told of itself; several words in quotes.
    """
    roster = caller.world.part(Roster)
    if roster is None:
        raise Unavailable("This server has no models.")
    _refuse_keys({"name": name, "field": field})  # before any words about them
    if what in ("list", "found"):
        _refuse_extra_words(name)
        return await (
            list_roster(caller, roster) if what == "list" else _detect_models(caller, roster)
        )
    if name is None:
        raise Invalid(f"Say which: /model {what} NAME.", at=_find_line_end(caller))
    flags = {"base_url": url, "key_env": key_env, "key_file": key_file, "prompt": prompt}
    if what == "add":
        return await _add_model(caller, roster, name.removeprefix("@"), field, value, text, flags)
    entry, agent = _find_roster_entry(caller, roster, name)
    _refuse_extra_words(*flags.values())
    if what == "set":
        return await _set_model_field(caller, roster, entry, agent, field, value, text)
    _refuse_extra_words(field, value, text)
    match what:
        case "show":
            return await read_model_details(caller, roster, entry, agent)
        case "remove":
            return await _remove_model(caller, roster, entry, agent)
        case "test":
            return await _test_model(caller, entry, agent)
        case _:
            return await _switch_model(caller, agent, on=what == "on")


async def _add_model(
    caller: Caller,
    roster: Roster,
    name: str,
    kind: str | None,
    model: str | None,
    text: str | None,
    flags: dict[str, str | None],
) -> Confirmation:
    if kind is None or model is None:
        raise Invalid(
            "Say what it is: /model add NAME KIND MODEL.",
            hint="As in /model add qwen ollama qwen3:8b; /model found shows what could be added.",
            at=_find_line_end(caller),
        )
    if text is not None and flags["prompt"] is not None:
        raise Invalid("Give the prompt once: with --prompt, or as text.")
    given = flags | {"prompt": flags["prompt"] or text, "kind": kind, "model": model, "name": name}
    _refuse_keys(given)
    names.check_name(name, "agent")
    settings = _validate_settings(
        caller, {key: word for key, word in given.items() if word is not None}
    )
    await check_price(settings)
    made = await caller.change(
        lambda tx: roster.add(tx, settings, caller.agent.id),
        f"added the model {name}: {describe_model(settings)}",
    )
    missing = await explain_missing_key(roster, settings)
    if missing:
        return Confirmation(f"{name} was added, and cannot answer yet: {missing}.")
    return Confirmation(f"{made.name} answers now: @{made.name} hello")


async def _set_model_field(
    caller: Caller,
    roster: Roster,
    entry: RosterEntry,
    agent: Agent,
    field: str | None,
    value: str | None,
    text: str | None,
) -> Confirmation:
    before = _require_verb_settings(entry, agent)
    known = {option.replace("_", "-"): option for option in MODEL_FIELDS}
    chosen = known.get((field or "").replace("_", "-"))
    if chosen is None:
        wrong = f"{(field or '')[:40]} is no setting of a model." if field else "Say what to set."
        raise Invalid(
            wrong, hint=f"There are {', '.join(MODEL_FIELDS)}.", at=_find_word(caller, field)
        )
    words = " ".join(part for part in (value, text) if part is not None)
    if not words.strip():
        raise Invalid(
            f"Say to what: /model set {agent.name} {chosen} VALUE.",
            hint="- takes the default back.",
            at=_find_line_end(caller),
        )
    _refuse_keys({chosen: words})
    changed: dict[str, Any] = before.model_dump(mode="json", exclude_defaults=True)
    if words == "-":
        changed.pop(chosen, None)
    else:
        changed[chosen] = None if words == "none" else words
    after = _validate_settings(caller, changed, words)
    await check_price(after)
    await caller.change(
        lambda tx: roster.change(tx, agent.id, before, after),
        f"changed the model {agent.name}: {chosen}",
    )
    shown = format_setting(getattr(after, chosen))
    note = ""
    if chosen.startswith("price_") and (after.price_in is None) != (after.price_out is None):
        other = "price_out" if after.price_out is None else "price_in"
        note = f" Set {other} too: one alone is no price."
    return Confirmation(f"{chosen} of {agent.name} is now: {shown}{note and f'.{note}'}")


async def _remove_model(
    caller: Caller, roster: Roster, entry: RosterEntry, agent: Agent
) -> Confirmation:
    _require_verb_settings(entry, agent)
    await caller.change(lambda tx: roster.remove(tx, agent.id), f"removed the model {agent.name}")
    _stop_answers(caller, agent)
    return Confirmation(
        f"{agent.name} answers no more. What it said stays; /model add brings it back."
    )


async def _switch_model(caller: Caller, agent: Agent, *, on: bool) -> Confirmation:
    if agent.disabled != on:
        raise Conflict(f"{agent.name} is {'on' if on else 'off'} already.")
    await caller.change(
        lambda tx: agents.set_agent_disabled(tx, agent.id, not on),
        f"turned the model {agent.name} {'on' if on else 'off'}",
    )
    if not on:
        _stop_answers(caller, agent)
    return Confirmation(
        f"{agent.name} {'answers again' if on else 'answers no more, until /model on'}."
    )


def _stop_answers(caller: Caller, agent: Agent) -> None:
    answering = caller.world.part(TurnRunner)
    if answering is not None:
        answering.stop(None, agent_id=agent.id)


async def _test_model(caller: Caller, entry: RosterEntry, agent: Agent) -> ModelTestResult:
    if not isinstance(entry.backend, PydanticAIBackend):
        raise Invalid(f"{agent.name} is no model.")
    budgets = caller.world.part(ModelBudgets)
    budget = await budgets.begin(agent.id) if budgets else TurnBudget(entry.limits)
    room = await caller.room()
    said = (Message("user", TEST_PROMPT),)
    request = StepRequest(
        room.name, caller.agent.name, TEST_PROMPT, (), system=TEST_PROMPT, conversation=said
    )
    began, first, text = time.monotonic(), 0.0, ""
    spent: TokenUsage | None = None
    try:
        budget.check()
        async with (
            asyncio.timeout(MODEL_TEST_TIMEOUT_SECONDS),
            aclosing(entry.backend.stream(request)) as stream,
        ):
            async for part in stream:
                if isinstance(part, TextDelta):
                    first = first or time.monotonic() - began
                    text += part.delta
                elif isinstance(part, TokenUsage):
                    spent = part
                if len(text) > MAX_TEST_CHARACTERS:
                    break
    except BudgetExceeded as over:
        raise Unavailable(f"{agent.name} {over}.") from over
    except BackendError as failed:
        raise Unavailable(f"{agent.name} could not answer: {failed}.") from failed
    except TimeoutError:
        raise Unavailable(
            f"{agent.name} did not answer within {MODEL_TEST_TIMEOUT_SECONDS:.0f} s."
        ) from None
    seconds = time.monotonic() - began
    spent = spent or entry.backend.owed(request, text) or TokenUsage(0, 0, estimated=True)
    budget.spent(spent)
    await caller.change(
        lambda tx: usage.record_usage(
            tx,
            room.id,
            agent.id,
            None,
            entry.backend.model,
            spent.prompt_tokens,
            spent.completion_tokens,
            estimated=spent.estimated,
            cost=spent.cost,
        )
    )
    tokens = spent.prompt_tokens + spent.completion_tokens
    shown = " ".join(text.split())[:MAX_TEST_CHARACTERS]
    return ModelTestResult(agent.name, shown, first, seconds, tokens, spent.cost)


async def _detect_models(caller: Caller, roster: Roster) -> DetectedModels:
    taken = {agent.name for agent in caller.world.agents}
    there = {
        (entry.settings.kind, entry.settings.model, base_url_of(entry.settings))
        for entry in roster.entries()
        if entry.settings is not None
    }
    offers = []
    for offer in await discover_models(roster.environ, taken=taken):
        if (offer.kind, offer.model, base_url_of(offer)) in there:
            continue
        words = ["/model add", offer.name, offer.kind, offer.model]
        if offer.base_url is not None and offer.base_url != base_url_of(
            offer.model_copy(update={"base_url": None})
        ):
            words += ["--url", offer.base_url]
        offers.append(DetectedModel(offer.name, describe_model(offer), " ".join(words)))
    return DetectedModels(tuple(offers))


def _find_roster_entry(caller: Caller, roster: Roster, name: str) -> tuple[RosterEntry, Agent]:
    agent = caller.world.agents.find(name)
    entry = roster.entry(agent.id)
    if entry is None:
        raise NotFound(
            f"{agent.name} is not a model that answers.", hint="/model lists them; add one."
        )
    return entry, agent


def _require_verb_settings(entry: RosterEntry, agent: Agent) -> ModelSettings:
    if entry.origin != "verb" or entry.settings is None:
        hint = "It is set in sshwarma.toml, on the server." if entry.origin == "file" else ""
        where = "the settings file" if entry.origin == "file" else "the program itself"
        raise Conflict(f"{agent.name} comes from {where} and is not changed here.", hint=hint)
    return entry.settings


def _refuse_keys(given: dict[str, str | None]) -> None:
    for name, word in given.items():
        free = name in ("prompt", "model", "key_file", "base_url")  # their own rules come after
        if word is not None and (has_key_prefix(word) if free else looks_like_key(word)):
            raise Invalid(f"The {name} you gave looks like a key.", hint=KEY_IN_LINE_MESSAGE)


def _validate_settings(
    caller: Caller, values: dict[str, Any], set_to: str | None = None
) -> ModelSettings:
    """The settings, checked; an error points at the word. `set_to` is the one value at fault if
    any is."""
    try:
        return ModelSettings.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        words = "; ".join(
            f"{detail['loc'][0]}: {describe_error(detail)}"
            if detail["loc"]
            else describe_error(detail)
            for detail in details
        )
        first = str(values.get(str(details[0]["loc"][0]), "")) if details[0]["loc"] else ""
        wrong = first if set_to is None else set_to
        secret = has_key_prefix(wrong) or looks_like_key(wrong)
        raise Invalid(f"{words}.", at=None if secret else _find_word(caller, wrong)) from None


def _refuse_extra_words(*words: str | None) -> None:
    extra = next((word for word in words if word is not None), None)
    if extra is not None:
        raise Invalid(f"{extra[:40]} is one word too many.", hint="/help model says how it goes.")


def _find_word(caller: Caller, word: str | None) -> tuple[int, int] | None:
    """Where a word stands in the line that was typed."""
    if not word:
        return _find_line_end(caller)
    found = re.search(rf"(?<!\S){re.escape(word)}(?!\S)", caller.line)
    return found.span() if found else None


def _find_line_end(caller: Caller) -> tuple[int, int]:
    return len(caller.line), len(caller.line)
