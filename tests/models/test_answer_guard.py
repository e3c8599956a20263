"""Turns whose answer repeats itself, or grows although a limit was sent."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator

import pytest

from sshwarma.common.limits import MAX_CHARACTERS_PER_OUTPUT_TOKEN
from sshwarma.models.backend import ReasoningDelta, StepRequest, StreamPart, TextDelta
from support.house import House, nothing


@pytest.mark.parametrize("part", [TextDelta, ReasoningDelta])
async def test_answer_that_repeats_itself_is_ended(
    house: House, part: type[TextDelta] | type[ReasoningDelta]
) -> None:
    sent = 0

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        nonlocal sent
        yield TextDelta("So it begins. ")
        while True:  # nothing else ends it
            sent += 1
            yield part("The project continues. ")

    house.backend.script = script
    made = await house.says("alice", "@qwen how is the project?")
    answer = next(row for row in made if row.kind == "chat" and row.meta.get("cut"))
    assert answer.content.startswith("So it begins.")
    assert len(answer.content) < 60
    what = "answer" if part is TextDelta else "reasoning"
    assert made[-1].content == f"was stopped: its {what} repeated itself"
    assert sent < 100
    assert await house.statuses() == ["failed"]
    house.backend.script = nothing
    await house.says("alice", "@qwen and now?")


async def test_server_that_ignores_the_longest_answer_is_stopped(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        for number in itertools.count():
            yield TextDelta(f"word {number} of an endless tale, ")

    house.backend.script, house.backend.output_tokens = script, 100
    made = await house.says("alice", "@qwen tell me a tale")
    assert len(made[1].content) < 100 * MAX_CHARACTERS_PER_OUTPUT_TOKEN + 50
    assert made[1].meta["cut"]
    assert "an answer (100 tokens, its max_output_tokens); ask it to continue" in made[-1].content
