"""Limits of turns: budgets, time, retries, and models that lose their rights."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest

from sshwarma.models import turn_runner as all_turns
from sshwarma.models.backend import (
    AnswerCut,
    BackendError,
    RetryDelay,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
)
from sshwarma.models.budget import BudgetLimits, ModelBudgets
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.dispatch import run_line
from sshwarma.world import agents, rows, turns
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError
from sshwarma.world.events import StreamUpdated
from sshwarma.world.row import Row
from sshwarma.world.usage import TokenUsage
from support.house import House, Scripted, nothing, said_by
from support.services import ProviderBase
from support.waiting import until


async def test_chain_of_models_mentioning_each_other_ends(house: House) -> None:
    second = Scripted(nothing)
    llama = await house.world.change(lambda tx: agents.create_agent(tx, "llama", kind="model"))
    house.backends[llama.id] = second

    async def to_llama(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("@llama your turn")

    async def to_qwen(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("@qwen yours")

    house.backend.script, second.script = to_llama, to_qwen
    await house.says("alice", "@qwen begin")
    made: list[Row] = []
    async with asyncio.timeout(30):
        while not any(row.kind == "notice" for row in made):
            await asyncio.sleep(0)
            made = await house.world.last_rows("lobby", 50)
    assert len(said_by(made, house, "qwen")) == 1
    assert len(said_by(made, house, "llama")) == 1
    assert made[-1].content == "called qwen, but each model answers a question once"


async def test_answer_that_quotes_names_calls_nobody(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta(
            "Models here: @guide, @qwen.\n`@guide` is one.\n> @guide hello\n```\n@guide hi\n```"
        )

    house.backend.script = script
    made = await house.says("alice", "@qwen who is here?")
    assert [row.kind for row in made] == ["chat", "chat"]
    assert await house.statuses() == ["completed"]


async def test_one_question_starts_a_bounded_number_of_answers(house: House) -> None:
    names = ["amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "islet", "jade"]

    def everyone() -> str:
        return "\n".join(f"@{name} what do you say?" for name in names)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta(everyone())

    for name in names:
        model = await house.world.change(partial(agents.create_agent, name=name, kind="model"))
        house.backends[model.id] = Scripted(script)
    house.backend.script = script
    await house.says("alice", "@qwen begin")
    async with asyncio.timeout(30):
        while True:
            statuses = await house.statuses()
            if len(statuses) >= 8 and "open" not in statuses:
                break
            await asyncio.sleep(0)
    # From the database, as the statuses: rows in memory follow a commit a moment later.
    made = await house.world.store.read(lambda conn: rows.read_tail(conn, "lobby", 200))
    answers = [row for row in made if row.kind == "chat" and row.content == everyone()]
    assert len(answers) == 8
    assert any("one question starts at most 8 answers" in row.content for row in made)
    turns_made = await house.world.store.read(lambda conn: turns.read_path(conn, "lobby"))
    assert len({turn.question_id for turn in turns_made}) == 1


async def test_concurrent_answers_per_room_are_bounded(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_turns, "MAX_ANSWERS_PER_ROOM", 2)
    go = asyncio.Event()

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await go.wait()
        yield TextDelta("Hm.\n@guide what do you say?")

    house.backend.script = script
    first = await run_line(house.caller("alice"), "@qwen one")
    second = await run_line(house.caller("bob"), "@qwen two")
    with pytest.raises(WorldError, match="models may answer in a room at once"):
        await run_line(house.caller("alice"), "@qwen three")
    go.set()
    for said in (first, second):
        await house.turns.wait_until_ended(said.turns[0])
    tail = await house.world.last_rows("lobby", 20)
    assert not [row for row in tail if row.content == "@qwen three"]
    assert "called guide, but a room may have at most 2 answers in progress" in " ".join(
        row.content for row in tail
    )


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (BudgetLimits(turn_steps=1), "was stopped: it used 1 step (limit of a turn: 1)"),
        (BudgetLimits(turn_tokens=50), "was stopped: it used 60 tokens (limit of a turn: 50)"),
        (BudgetLimits(turn_cost=0.5), "was stopped: it has used $0.6 of $0.5 for one turn"),
        (
            BudgetLimits(day_tokens=60),
            "was stopped: it has used 60 of 60 tokens for today (UTC)",
        ),
    ],
)
async def test_turn_over_budget_keeps_the_partial_answer(
    house: House, limits: BudgetLimits, says: str
) -> None:
    house.limits = limits

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("I look.")
        yield ToolCall("a", "sshwarma__who", {})
        yield TokenUsage(40, 20, cost=0.6)

    house.backend.script = script
    made = await house.says("alice", "@qwen look for ever")
    assert made[1].content == "I look."
    assert made[-1].kind == "notice"
    assert made[-1].content.startswith(says)
    # Calls of the last step are not run any more.
    assert [row.kind for row in made] == ["chat", "chat", "notice"]
    assert await house.statuses() == ["failed"]


async def test_model_is_asked_for_an_answer_in_its_last_step(house: House) -> None:
    house.limits = BudgetLimits(turn_steps=3)
    last: list[bool] = []

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        last.append(request.is_last)
        if request.is_last:
            yield TextDelta(f"I have {len(request.completed_calls)} results.")
        else:
            yield ToolCall("a", "sshwarma__who", {})

    house.backend.script = script
    made = await house.says("alice", "@qwen look for ever")
    assert last == [False, False, True]
    assert made[-1].content == "I have 2 results."
    assert await house.statuses() == ["completed"]


async def test_answer_cut_at_its_limit_is_marked(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("once upon a")
        yield AnswerCut()

    house.backend.script = script
    made = await house.says("alice", "@qwen tell me a tale")
    assert made[1].meta["cut"]
    assert made[-1].content == "reached the maximum length of an answer; ask it to continue"
    assert await house.statuses() == ["failed"], "it takes no place in the window"


async def test_many_calls_in_a_step_leave_one_refusal(house: House) -> None:
    answered: list[int] = []

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.steps:
            answered.append(len(request.completed_calls))
            yield TextDelta(request.completed_calls[-1].text)
            return
        for number in range(500):
            yield ToolCall(str(number), "sshwarma__who", {})

    house.backend.script = script
    made = await house.says("alice", "@qwen look at everything")
    refused = [row for row in made if row.kind == "tool.error"]
    assert [row.meta["tool"] for row in refused] == ["sshwarma:who"]
    assert "492 calls were refused" in refused[0].content
    assert answered == [9]
    assert "492 calls were refused" in made[-1].content


async def test_turn_time_limit_includes_tool_calls(house: House) -> None:
    house.limits = BudgetLimits(turn_seconds=1)
    ended = asyncio.Event()

    class Slow(ProviderBase):
        async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ToolResult("never")

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield ToolCall("a", "sshwarma__who", {})

    house.providers["internal"] = Slow()
    house.tools._providers = house.providers
    house.backend.script = script
    made = await house.says("alice", "@qwen wait")
    assert made[-1].content == "was stopped after 1 s (time limit of a turn)"
    assert ended.is_set()


class Paid(Scripted):
    """A backend whose answers cost something even if they are broken off."""

    def estimate_usage(self, request: StepRequest, said: str) -> TokenUsage:
        return TokenUsage(100, len(said), estimated=True, cost=0.2)


async def test_interrupted_answer_is_counted_in_usage(house: House) -> None:
    speaking = asyncio.Event()

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("Once upon a time")
        speaking.set()
        await asyncio.Event().wait()

    qwen = house.world.agents.find("qwen")
    house.backends[qwen.id] = Paid(script)
    said = await run_line(house.caller("alice"), "@qwen a tale")
    await asyncio.wait_for(speaking.wait(), 30)
    house.turns.stop(None, agent_id=qwen.id)
    await house.turns.wait_until_ended(said.turns[0])
    used = await house.budgets.usage_today(qwen.id)
    assert (used.tokens, used.cost, used.unpriced) == (116, 0.2, 0)
    again = await ModelBudgets(house.world, lambda agent_id: BudgetLimits()).usage_today(qwen.id)
    assert again == used


async def test_refused_or_waiting_request_costs_nothing(house: House) -> None:
    waiting = asyncio.Event()

    async def refuses(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        raise BackendError("no")
        yield

    async def waits(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield RetryDelay(2.2, "rate limited")
        waiting.set()
        await asyncio.Event().wait()

    qwen = house.world.agents.find("qwen")
    house.backends[qwen.id] = Paid(refuses)
    await house.says("alice", "@qwen hi")
    house.backends[qwen.id] = Paid(waits)
    said = await run_line(house.caller("alice"), "@qwen hi")
    await asyncio.wait_for(waiting.wait(), 30)
    house.turns.stop("lobby")
    await house.turns.wait_until_ended(said.turns[0])
    assert (await house.budgets.usage_today(qwen.id)).tokens == 0


async def test_retry_wait_is_shown_until_text_arrives(house: House) -> None:
    heard: list[str] = []

    def hear(event: object) -> None:
        if isinstance(event, StreamUpdated):
            heard.append(event.wait_reason)

    house.world.bus.on_room("lobby", hear)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield RetryDelay(2.2, "rate limited")
        await until(lambda: heard[-1:] == ["waiting 3 s (rate limited)"])
        yield TextDelta("at last")
        await until(lambda: heard[-1:] == [""])

    house.backend.script = script
    await house.says("alice", "@qwen hi")
    assert [text for text, _ in itertools.groupby(heard)] == [
        "", "waiting 3 s (rate limited)", "",
    ]  # fmt: skip


async def test_model_removed_before_answering_leaves_a_notice(house: House) -> None:
    said = await run_line(house.caller("alice"), "@qwen hi")
    del house.backends[house.world.agents.find("qwen").id]
    await house.turns.wait_until_ended(said.turns[0])
    assert (await house.world.last_rows("lobby", 1))[
        0
    ].content == "could not answer: the model was removed"


async def test_a_muted_model_calls_no_tool_and_does_not_answer(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.steps:
            await run_line(house.caller("alice"), "/mute qwen")
            yield ToolCall("1", "sshwarma__vibe", {"text": "said by a muted model"})
        else:
            yield TextDelta("said by a muted model")

    house.backend.script = script
    rows = await house.says("alice", "@qwen do it")
    assert [row.kind for row in rows if "muted model" in row.content] == []
    assert rows[-1].content == "was stopped by alice"


async def test_a_banned_model_stops(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("I begin")
        await run_line(house.caller("alice"), "/ban qwen")
        await asyncio.Event().wait()

    house.backend.script = script
    rows = await house.says("alice", "@qwen do it")
    assert "could not finish: You are banned from lobby." in rows[-1].content
    assert (await house.statuses())[-1] == "failed"
