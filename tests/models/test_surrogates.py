"""Halves of surrogate pairs in answers: joined or replaced; turns never end so."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from sshwarma.models.backend import ReasoningDelta, StepRequest, StreamPart, TextDelta, ToolCall
from sshwarma.models.surrogates import SurrogateJoiner
from support.house import House, house, said_by

__all__ = ["house"]


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        (["a\ud83d", "\ude00 there"], "a\U0001f600 there"),
        (["a\ud83d", "", "\ude00"], "a\U0001f600"),
        (["\ud83d\ude00"], "\U0001f600"),
        (["\ude00 lone"], "\ufffd lone"),
        (["half \ud83d"], "half \ufffd"),
        (["\ud83d", "\ud83d\ude00"], "\ufffd\U0001f600"),
        (["plain", " text"], "plain text"),
    ],
)
def test_halves_of_pairs_are_joined_across_chunks(chunks: list[str], text: str) -> None:
    joiner = SurrogateJoiner()
    assert "".join(map(joiner.join, chunks)) + joiner.end() == text


async def test_answer_with_half_a_pair_becomes_a_row(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        for delta in ("hi \ud83d", "\ude00", " and \ud83d"):
            yield TextDelta(delta)

    house.backend.script = script
    made = await house.says("alice", "@qwen hello")
    assert said_by(made, house, "qwen") == ["hi \U0001f600 and \ufffd"]
    assert await house.statuses() == ["completed"]


async def test_half_a_pair_that_ends_the_reasoning_of_a_step_stays_in_that_step(
    house: House,
) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.completed_calls:
            yield ReasoningDelta("\ude00 second")
            yield TextDelta("done")
        else:
            yield ReasoningDelta("first \ud83d")
            yield ToolCall("1", "sshwarma__look", {})

    house.backend.script = script
    made = await house.says("alice", "@qwen hello")
    thoughts = [row.content for row in made if row.kind == "thought"]
    assert thoughts == ["first \ufffd", "\ufffd second"]
    assert said_by(made, house, "qwen") == ["done"]


async def test_turn_whose_text_cannot_be_stored_ends_with_a_notice(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("fine")

    house.backend.script = script
    # A fault that no test can cause from outside any more: text that SQLite refuses.
    monkeypatch.setattr(SurrogateJoiner, "join", lambda self, chunk: f"{chunk}\ud800")
    made = await house.says("alice", "@qwen hello")
    assert [row.content for row in made if row.kind == "notice"][-1].startswith("could not finish")
    assert await house.statuses() == ["failed"]
