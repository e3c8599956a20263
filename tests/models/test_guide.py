"""The guide answers from the help, and with tools."""

from __future__ import annotations

import pytest

from sshwarma.models.guide import GUIDE_NO_ANSWER
from sshwarma.verbs.dispatch import run_line
from support.house import House


@pytest.mark.parametrize(
    ("question", "tool"),
    [
        ("who is here?", "sshwarma:who"),
        ("what can I equip?", "sshwarma:inventory"),
        ("which rooms are there?", "sshwarma:rooms"),
        ("where can I go", "sshwarma:exits"),
        ("where am I?", "sshwarma:look"),
        ("what have we decided?", "sshwarma:journal"),
    ],
)
async def test_guide_answers_questions_with_tools(house: House, question: str, tool: str) -> None:
    made = await house.says("bob", f"@guide {question}")
    assert [row.kind for row in made] == ["chat", "tool.call", "tool.result", "chat"]
    assert made[1].meta["tool"] == tool
    assert made[2].content.splitlines()[0] in made[3].content


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("how do I add a key?", "sshwarma keys add"),
        ("how do I make a private room?", "/room private"),
        ("which layers are stable, volatile or of the epoch?", "(from /help layers)"),
        ("sing!", GUIDE_NO_ANSWER),
    ],
)
async def test_guide_answers_from_the_help_texts(house: House, question: str, says: str) -> None:
    assert says in (await house.says("bob", f"@guide {question}"))[-1].content


async def test_guide_names_a_tool_that_is_not_equipped(house: House) -> None:
    await run_line(house.caller("alice"), "/unequip room sshwarma:who")
    assert (
        "/equip room sshwarma:who" in (await house.says("bob", "@guide who is here?"))[-1].content
    )


@pytest.mark.parametrize("words", ["hello", "Hi!", "hello guide", "help", ""])
async def test_guide_greets_a_newcomer_with_three_things_to_try(house: House, words: str) -> None:
    answer = (await house.says("bob", f"@guide {words}"))[-1].content
    assert answer.startswith("Hello bob.")
    assert len([line for line in answer.split("\n") if line.startswith("  ")]) == 3


async def test_guide_explains_what_it_once_listed(house: House) -> None:
    for question, begins in (
        ("what is a room", "A room is a place to be in."),
        ("how do I equip a tool", "To equip a tool is to switch it on"),
        ("connect claude", "Any MCP client can be in a room"),
    ):
        made = await house.says("bob", f"@guide {question}")
        assert [row.kind for row in made] == ["chat", "chat"]
        assert made[-1].content.startswith(begins)
