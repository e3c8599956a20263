"""Answers: folded reasoning, the model's own name, and the models they call."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

import pytest

from sshwarma.models.backend import StepRequest, StreamPart, TextDelta, TextFold
from sshwarma.world import agents
from sshwarma.wrap.compose import ModelContext
from support.house import House, Scripted, nothing, said_by


async def answer_of(house: House, *parts: StreamPart) -> list[tuple[str, str]]:
    """Return the kinds and texts of the rows that an answer of these parts makes."""

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        for part in parts:
            yield part

    house.backend.script = script
    made = await house.says("alice", "@qwen hello")
    return [(row.kind, row.content) for row in made[1:]]


async def test_text_before_a_closing_tag_is_folded(house: House) -> None:
    parts = (TextDelta("what is"), TextDelta(" asked"), TextFold(), TextDelta("Yes."))
    assert await answer_of(house, *parts) == [("thought", "what is asked"), ("chat", "Yes.")]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("qwen: hello", "hello"),
        ("Qwen: qwen: hello", "hello"),
        ("**qwen:** hello", "hello"),
        ("**@QWEN**: hello", "hello"),
        ("qwen::Model is code", "qwen::Model is code"),
        ("other: qwen: hello", "other: qwen: hello"),
    ],
)
async def test_own_name_at_the_beginning_is_left_out(house: House, said: str, shown: str) -> None:
    assert await answer_of(house, TextDelta(said)) == [("chat", shown)]


async def test_indented_lines_and_html_code_call_nobody(house: House) -> None:
    text = (
        "For example:\n    @guide one\n  @guide two\n<code>\n@guide three\n</code>\n"
        '<PRE class="x">\n@guide four\n</PRE> <pre>\n@guide five'
    )
    assert await answer_of(house, TextDelta(text)) == [("chat", text)]
    assert len(await house.statuses()) == 1


async def test_refused_calls_of_an_answer_are_one_row(house: House) -> None:
    names = ["amber", "birch", "cedar"]
    for name in names:
        model = await house.world.change(partial(agents.create_agent, name=name, kind="model"))
        house.backends[model.id] = Scripted(nothing)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("\n".join(f"@{name} and you?" for name in names))

    house.backend.script = script
    made = await house.says("alice", "@qwen @amber @birch @cedar hello")
    assert len(said_by(made, house, "qwen")) == 1
    notices = [row.content for row in made if "called" in row.content]
    assert notices == ["called amber, birch, cedar, but each model answers a question once"]


async def test_notice_of_a_failing_script_is_not_repeated(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices = ("hook:wrap:bad failed",)

    async def compose(*args: object, **values: object) -> ModelContext:
        return ModelContext((), notices=notices)

    monkeypatch.setattr(house.services.composer, "compose", compose)
    house.backend.context_tokens = 1_000
    first = ("notice", "hook:wrap:bad failed")
    assert await answer_of(house, TextDelta("one")) == [first, ("chat", "one")]
    assert await answer_of(house, TextDelta("two")) == [("chat", "two")]
    notices = ("hook:wrap:bad failed otherwise",)
    assert (await answer_of(house, TextDelta("three")))[0] == ("notice", notices[0])
