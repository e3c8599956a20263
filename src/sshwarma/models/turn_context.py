"""The context of a turn: composed alike for the turn and for previews of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sshwarma.common.limits import DEFAULT_CONTEXT_TOKENS
from sshwarma.models.backend import Backend, OfferedTool
from sshwarma.models.offered_tools import offer_tools, summarize_tools
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.wrap.compose import ContextComposer, ModelContext
from sshwarma.wrap.profiles import FULL_PROFILE, ContextProfile, ContextReader


@dataclass(frozen=True, slots=True)
class AskedText:
    """A question as a context quotes it.

    Attributes:
        text: what is asked.
        asker: name of the agent who asks.
        before: number of the question's row; the context holds the rows before it.
    """

    text: str
    asker: str
    before: int


@dataclass(frozen=True, slots=True)
class TurnContext:
    """A context, the tools a model is offered with it, and the tokens it was given."""

    context: ModelContext
    offers: tuple[OfferedTool, ...]
    profile: ContextProfile
    budget: int


async def compose_turn_context(
    composer: ContextComposer,
    caller: Caller,
    backend: Backend | None,
    asked: AskedText,
    budget: int | None = None,
    *,
    preview_tokens: int | None = None,
) -> TurnContext:
    """Compose what a model is sent for a question.

    Args:
        composer: runs the layers.
        caller: the model, in the room in which it is asked.
        backend: who answers; None if nobody does now.
        asked: the question.
        budget: tokens of the context (default: the model's context window).
        preview_tokens: as of `ContextComposer.compose`.

    Raises:
        LuaError: if it cannot be composed.
    """
    profile, reader, result_tokens = FULL_PROFILE, ContextReader("", FULL_PROFILE.name), None
    budget_of_model = DEFAULT_CONTEXT_TOKENS
    if backend is not None:
        profile, budget_of_model = backend.profile, backend.context_tokens
        reader = ContextReader(backend.provider_kind, profile.name, backend.output_tokens)
        result_tokens = backend.result_tokens
    budget = budget_of_model if budget is None else budget
    result_tokens = budget // 2 if result_tokens is None else min(result_tokens, budget // 2)
    load = await caller.loadout()
    by_name = sorted(load.usable_tools, key=lambda item: item.thing.label)
    rights = caller.rights_in(await caller.room(), now_ms())
    offers = offer_tools(by_name, profile, rights)
    context = await composer.compose(
        caller,
        asked.text,
        asked.asker,
        asked.before,
        tools=summarize_tools(offers),
        budget=budget,
        reader=replace(reader, result_tokens=result_tokens),
        preview_tokens=preview_tokens,
    )
    return TurnContext(context, offers, profile, budget)
