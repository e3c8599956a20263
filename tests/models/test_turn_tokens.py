"""The tokens of a turn: its last step is chosen so that an answer fits."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace

from sshwarma.models.backend import StepRequest, StreamPart, TextDelta, ToolCall
from sshwarma.models.budget import BudgetLimits
from sshwarma.models.request_size import count_request_tokens
from sshwarma.world.usage import TokenUsage
from sshwarma.wrap.compose import ModelContext
from sshwarma.wrap.layers import Layer
from support.house import House


class Rules:
    """A composer of long rules."""

    async def compose(self, *args: object, **options: object) -> ModelContext:
        return ModelContext((Layer("rules", "release", "system", "Be brief. " * 400),))


class Tools:
    """A composer that counts many tokens for the tools."""

    async def compose(self, *args: object, **options: object) -> ModelContext:
        return ModelContext((), tool_tokens=1_800)


async def test_step_before_the_token_limit_is_the_last(house: House) -> None:
    """And its calls are not run, even if the provider makes some."""
    house.limits = BudgetLimits(turn_tokens=100)
    last: list[bool] = []

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        last.append(request.is_last)
        yield ToolCall("a", "sshwarma__who", {})
        yield TokenUsage(5, 0) if request.is_last else TokenUsage(40, 5)

    house.backend.script = script
    made = await house.says("alice", "@qwen look for ever")
    assert last == [False, True]
    assert sum(row.kind == "tool.call" for row in made) == 1
    assert "tokens (limit of a turn: " in made[-1].content


async def test_step_that_will_use_up_the_tokens_is_the_last(house: House) -> None:
    house.limits = BudgetLimits(turn_tokens=4_000)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.is_last:
            yield TextDelta("What I have.")
        else:
            yield ToolCall("a", "sshwarma__who", {})
        yield TokenUsage(2_700, 20)

    house.backend.script = script
    made = await house.says("alice", "@qwen look for ever")
    assert (made[-1].kind, made[-1].content) == ("chat", "What I have.")
    assert await house.statuses() == ["completed"]


async def test_turn_with_tokens_for_one_request_answers_in_it(house: House) -> None:
    house.limits = BudgetLimits(turn_tokens=4_000)
    house.backend.context_tokens = 32_000
    house.turns._deps = replace(house.turns._deps, composer=Rules())  # type: ignore[arg-type]

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.is_last:
            yield TextDelta("What I know.")
        else:
            yield ToolCall("a", "sshwarma__who", {})
        yield TokenUsage(count_request_tokens(request), 20)

    house.backend.script = script
    made = await house.says("alice", "@qwen look for ever")
    assert [row.content for row in made] == ["@qwen look for ever", "What I know."]
    assert [request.is_last for request in house.backend.asked] == [True]


async def test_tools_that_alone_exceed_the_context_are_named(house: House) -> None:
    house.backend.context_tokens = 2_000
    house.turns._deps = replace(house.turns._deps, composer=Tools())  # type: ignore[arg-type]
    made = await house.says("alice", "@qwen hello")
    assert re.fullmatch(
        r"could not answer: its \d+ tools have about 1800 tokens, and its context has room for 1488"
        r" before the answer; unequip some, or ask an owner to set its profile to small or its"
        r" context_tokens higher",
        made[-1].content,
    )
    assert house.backend.asked == []
