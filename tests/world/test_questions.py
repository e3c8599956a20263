"""Which models a question may still ask; a message that fails asks none."""

from __future__ import annotations

import pytest

from sshwarma.world.errors import Forbidden, Unavailable
from sshwarma.world.questions import Question
from support.people import Someone, arrive


async def test_refused_message_counts_none_of_its_models_as_asked(qwen: Someone) -> None:
    other = await arrive(qwen.world, "amber", kind="model", door="model")
    question = Question("alice", 8, asked_ids={qwen.id})
    refusal = "qwen cannot be called: each model answers"
    with (
        pytest.raises(Forbidden, match=refusal),
        question.asking([other.agent, qwen.agent]),
    ):
        pytest.fail("the message was stored")
    assert question.asked_ids == {qwen.id}
    with question.asking([other.agent]):
        assert question.asked_ids == {qwen.id, other.id}
    assert question.asked_ids == {qwen.id, other.id}


async def test_message_that_cannot_be_stored_asks_nobody(qwen: Someone) -> None:
    question = Question("alice", 8)
    with pytest.raises(Unavailable), question.asking([qwen.agent]):
        raise Unavailable("The disk is full.")
    assert question.asked_ids == set()


async def test_models_of_one_message_count_toward_the_limit(qwen: Someone) -> None:
    other = await arrive(qwen.world, "amber", kind="model", door="model")
    question = Question("alice", 1)
    refusal = "amber cannot be called: one question starts at most 1"
    with (
        pytest.raises(Forbidden, match=refusal),
        question.asking([qwen.agent, other.agent]),
    ):
        pytest.fail("the message was stored")
    assert question.asked_ids == set()
