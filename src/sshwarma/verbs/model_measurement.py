"""One short question to a model, to see whether it answers and how fast."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Final

from sshwarma.common.limits import MODEL_TEST_TIMEOUT_SECONDS
from sshwarma.models.backend import BackendError, Message, MeteredBackend, StepRequest, TextDelta
from sshwarma.models.budget import BudgetExceeded, TurnBudget
from sshwarma.models.roster import RosterEntry
from sshwarma.services import services_of
from sshwarma.verbs.model_views import (
    ModelTestResult,
)
from sshwarma.world import usage
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.usage import TokenUsage

TEST_PROMPT: Final = "Answer with one word: ready"
MAX_TEST_CHARACTERS: Final = 200


async def measure_model(caller: Caller, entry: RosterEntry, agent: Agent) -> ModelTestResult:
    """Ask a model for one word; return its answer and how long it took.

    Raises:
        Invalid: if the model has no provider.
        Unavailable: if it does not answer, or its budget is used up.
    """
    if entry.settings is None:
        raise Invalid(f"{agent.name} follows built-in rules and has no provider to test.")
    budget = await services_of(caller).budgets.begin_turn(agent.id)
    room = await caller.room()
    conversation = (Message("user", TEST_PROMPT),)
    request = StepRequest(
        room.name, caller.agent.name, TEST_PROMPT, (), system=TEST_PROMPT, conversation=conversation
    )
    start, first_seconds, text = time.monotonic(), 0.0, ""
    token_usage: TokenUsage | None = None
    try:
        budget.check()
        async with (
            asyncio.timeout(MODEL_TEST_TIMEOUT_SECONDS),
            aclosing(entry.backend.stream(request)) as stream,
        ):
            async for part in stream:
                if isinstance(part, TextDelta):
                    first_seconds = first_seconds or time.monotonic() - start
                    text += part.delta
                elif isinstance(part, TokenUsage):
                    token_usage = part
                if len(text) > MAX_TEST_CHARACTERS:
                    break
    except BudgetExceeded as budget_error:
        raise Unavailable(f"{agent.name} {budget_error}.") from budget_error
    except BackendError as error:
        raise Unavailable(f"{agent.name} could not answer: {error}.") from error
    except TimeoutError:
        raise Unavailable(
            f"{agent.name} did not answer within {MODEL_TEST_TIMEOUT_SECONDS:.0f} s."
        ) from None
    seconds = time.monotonic() - start
    if token_usage is None and isinstance(entry.backend, MeteredBackend):
        token_usage = entry.backend.estimate_usage(request, text)
    token_usage = token_usage or TokenUsage(0, 0, estimated=True)
    await _record_usage(caller, entry, agent, budget, token_usage)
    tokens = token_usage.prompt_tokens + token_usage.completion_tokens
    excerpt = " ".join(text.split())[:MAX_TEST_CHARACTERS]
    return ModelTestResult(
        name=agent.name,
        text=excerpt,
        first_seconds=first_seconds,
        seconds=seconds,
        tokens=tokens,
        cost=token_usage.cost,
    )


async def _record_usage(
    caller: Caller, entry: RosterEntry, agent: Agent, budget: TurnBudget, token_usage: TokenUsage
) -> None:
    budget.add_usage(token_usage)
    await caller.change(
        lambda tx: usage.record_usage(
            tx,
            room_id=caller.room_id,
            agent_id=agent.id,
            turn_id=None,
            model=entry.backend.model,
            spent=token_usage,
        )
    )
