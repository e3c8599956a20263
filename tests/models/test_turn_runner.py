"""Turns: from a mention to the last row, whatever the backend does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from sshwarma.common.limits import MAX_CALLS_PER_STEP
from sshwarma.models import turn_loop
from sshwarma.models.backend import (
    BackendError,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
)
from sshwarma.models.budget import BudgetLimits
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.dispatch import run_line
from sshwarma.world import namespaces, notes, things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, WorldError
from sshwarma.world.events import StreamEnded, StreamUpdated
from sshwarma.world.schema import tool_calls
from support.house import House, said_by
from support.services import ProviderBase


async def test_mention_is_answered_in_its_own_turn(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("Hello ")
        yield TextDelta("alice.")

    house.backend.script = script
    asked, answer = await house.says("alice", "@qwen hi")
    assert (asked.kind, asked.content) == ("chat", "@qwen hi")
    assert (answer.kind, answer.content) == ("chat", "Hello alice.")
    assert answer.author_id == house.world.agents.find("qwen").id
    assert asked.turn_id == answer.turn_id is not None
    assert await house.statuses() == ["completed"]
    assert house.backend.asked[0].asker == "alice"


async def test_tool_calls_are_child_rows_of_the_question(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            yield ToolCall("a", "sshwarma__who", {})
            yield ToolCall("b", "sshwarma__rooms", {})
        else:
            calls = request.completed_calls
            yield TextDelta(f"{len(calls)} answers: {calls[1].text.splitlines()[0]}")

    house.backend.script = script
    made = await house.says("alice", "@qwen who and where?")
    assert {row.turn_id for row in made} == {made[0].turn_id}
    calls = [row for row in made if row.kind == "tool.call"]
    results = [row for row in made if row.kind == "tool.result"]
    assert [row.meta["tool"] for row in calls] == ["sshwarma:who", "sshwarma:rooms"]
    assert {row.parent_row_id for row in calls} == {made[0].id}
    assert {row.parent_row_id for row in results} == {row.id for row in calls}
    assert made[-1].content == "2 answers: Rooms:"

    def recorded(conn: Any) -> list[tuple[str, str]]:
        return [(row.tool_id, row.status) for row in conn.execute(tool_calls.select())]

    assert sorted(await house.world.store.read(recorded)) == [
        ("sshwarma:rooms", "success"),
        ("sshwarma:who", "success"),
    ]


async def test_calls_of_one_step_run_concurrently_and_keep_their_order(house: House) -> None:
    both = asyncio.Barrier(2)

    class Meeting(ProviderBase):
        async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
            await asyncio.wait_for(both.wait(), 30)
            return ToolResult(tool.name)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            yield ToolCall("a", "sshwarma__who", {})
            yield ToolCall("b", "sshwarma__look", {})
        else:
            yield TextDelta(" ".join(done.text for done in request.completed_calls))

    house.providers["internal"] = Meeting()
    house.tools._providers = house.providers
    house.backend.script = script
    assert (await house.says("alice", "@qwen go"))[-1].content == "who look"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("no_such_tool", {}, "Unknown tool no_such_tool"),
        ("sshwarma:put", {}, "is not equipped here"),
        ("sshwarma__join", {}, "room: required"),
        ("sshwarma__join", {"room": "nowhere"}, "Unknown room nowhere"),
    ],
)
async def test_invalid_tool_call_is_an_error_row_and_the_turn_continues(
    house: House, name: str, arguments: dict[str, Any], said: str
) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            yield ToolCall("a", name, arguments)
        else:
            yield TextDelta("never mind" if request.completed_calls[0].is_error else "it worked")

    house.backend.script = script
    made = await house.says("alice", "@qwen do it")
    assert [row.kind for row in made] == ["chat", "tool.call", "tool.error", "chat"]
    assert said in made[2].content
    assert made[3].content == "never mind"


async def test_unparsable_arguments_are_reported_to_the_model(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            yield ToolCall("a", "sshwarma__who", {}, parse_error="The arguments are not JSON.")
        else:
            yield TextDelta(request.completed_calls[0].text)

    house.backend.script = script
    made = await house.says("alice", "@qwen go")
    words = "The arguments are not JSON."
    assert [row.kind for row in made] == ["chat", "tool.call", "tool.error", "chat"]
    assert [made[2].content, made[3].content] == [words, words]


async def test_run_of_an_unequipped_tool_is_refused_without_a_row(house: House) -> None:
    with pytest.raises(NotFound, match="not equipped"):
        await house.says("alice", "/run sshwarma:put name=x text=y")
    assert await house.world.last_rows("lobby", 5) == []


async def test_run_calls_a_tool_as_the_caller(house: House) -> None:
    made = await house.says("alice", '/run sshwarma:note text="by hand"')
    assert [row.kind for row in made] == ["tool.call", "journal.note", "tool.result"]
    assert {row.author_id for row in made} == {house.world.agents.find("alice").id}


@pytest.mark.parametrize("failure", [BackendError("no credit left"), RuntimeError("a bug")])
async def test_backend_error_leaves_a_readable_notice(
    house: House, failure: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("I think ")
        raise failure

    house.backend.script = script
    _, cut, notice = await house.says("alice", "@qwen hi")
    assert (cut.content, cut.meta) == ("I think", {"cut": True})
    assert notice.kind == "notice"
    could_not = "finish: no credit" if isinstance(failure, BackendError) else "answer"
    assert f"could not {could_not}" in notice.content
    assert ("no credit" in notice.content) == isinstance(failure, BackendError)
    logged = capsys.readouterr().out
    expected = "a model did not answer" if isinstance(failure, BackendError) else "a turn failed"
    assert expected in logged


async def test_backend_that_sends_nothing_times_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_loop, "BACKEND_SILENCE_SECONDS", 0.01)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await asyncio.Event().wait()
        yield TextDelta("never")

    house.backend.script = script
    assert "timed out after" in (await house.says("alice", "@qwen hi"))[-1].content


async def test_endless_tool_calls_are_stopped(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield ToolCall("x", "sshwarma__who", {})

    house.backend.script = script
    made = await house.says("alice", "@qwen loop")
    assert sum(row.kind == "tool.call" for row in made) == BudgetLimits().turn_steps - 1
    assert "was stopped: it used" in made[-1].content


async def test_streamed_text_is_published_and_ends_with_its_row(house: House) -> None:
    heard: list[Any] = []
    house.world.bus.on_room("lobby", heard.append)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        for word in ("one ", "two ", "three"):
            yield TextDelta(word)

    house.backend.script = script
    await house.says("alice", "@qwen count")
    streaming = [event for event in heard if isinstance(event, StreamUpdated)]
    assert streaming[0].text == ""
    assert "one two three".startswith(streaming[-1].text)
    assert isinstance(heard[-1], StreamEnded)
    assert heard[-2].row.content == "one two three"


async def test_two_mentioned_models_answer_in_separate_turns(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("I am qwen.")

    house.backend.script = script
    made = await house.says("alice", "@qwen and @guide: what is this?")
    answers = {row.author_id: row.turn_id for row in made[1:]}
    assert len(answers) == len(set(answers.values())) == 2


@pytest.mark.parametrize("text", ["mail qwen@example.org", "@qw hello", "hello qwen", "@qwenta hi"])
async def test_text_without_a_mention_starts_no_turn(house: House, text: str) -> None:
    assert len(await house.says("alice", text)) == 1


async def test_a_model_acts_with_its_own_rights(house: House) -> None:
    await run_line(house.caller("alice"), "/equip room sshwarma:put")

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            yield ToolCall("a", "sshwarma__put", {"name": "x", "text": "y"})
        else:
            yield TextDelta(request.completed_calls[0].text)

    house.backend.script = script
    made = await house.says("alice", "@qwen put it there")
    assert "needs the build right" in made[-1].content
    with pytest.raises(WorldError):
        await run_line(house.caller("alice"), "/examine x")


async def test_result_rows_are_in_the_order_of_the_calls(house: House) -> None:
    quick = asyncio.Event()

    class Slow(ProviderBase):
        async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
            if tool.name == "who":
                await quick.wait()
            else:
                quick.set()
            return ToolResult(tool.name)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            yield ToolCall("a", "sshwarma__who", {})
            yield ToolCall("b", "sshwarma__rooms", {})
        else:
            yield TextDelta("done")

    house.providers["internal"] = Slow()
    house.backend.script = script
    made = await house.says("alice", "@qwen both")
    assert [row.content for row in made if row.kind == "tool.result"] == ["who", "rooms"]


async def test_call_rows_are_in_the_order_of_the_request(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.completed_calls:
            yield TextDelta("done")
            return
        yield ToolCall("a", "sshwarma__nothing_of_that_name", {})  # known to be wrong later than
        yield ToolCall("b", "sshwarma__look", {"thing": 5})  # arguments that do not fit
        yield ToolCall("c", "sshwarma__who", {})

    house.backend.script = script
    made = await house.says("alice", "@qwen all three")
    calls = [row for row in made if row.kind == "tool.call"]
    named = ["sshwarma__nothing_of_that_name", "sshwarma:look", "sshwarma:who"]
    assert [row.meta["tool"] for row in calls] == named
    results = [row for row in made if row.kind in ("tool.result", "tool.error")]
    assert [row.parent_row_id for row in results] == [row.id for row in calls]


async def test_calls_over_the_limit_of_a_step_are_refused(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.completed_calls:
            yield TextDelta(request.completed_calls[-1].text)
            return
        for number in range(MAX_CALLS_PER_STEP + 1):
            yield ToolCall(str(number), "sshwarma__who", {})

    house.backend.script = script
    made = await house.says("alice", "@qwen all")
    assert [row.kind for row in made].count("tool.result") == MAX_CALLS_PER_STEP
    assert made[-2].kind == "tool.error"
    assert "At most 8 tools" in made[-1].content


@pytest.mark.parametrize(("count", "names"), [(30, 7), (500, 7), (500, 500)])
async def test_calls_of_unknown_tools_are_refused_in_one_row(
    house: House, count: int, names: int
) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.completed_calls:
            yield TextDelta(request.completed_calls[1].text)
            return
        yield ToolCall("w", "sshwarma__who", {})
        for number in range(count):
            yield ToolCall(f"u{number}", f"no_tool_{number % names}", {"n": number})
        if names < 80:
            yield ToolCall("l", "sshwarma__look", {})

    house.backend.script = script
    made = await house.says("alice", "@qwen all")
    assert [row.meta["tool"] for row in made if row.kind == "tool.call"] == [
        "sshwarma:who",
        "no_tool_0",
        *(["sshwarma:look"] if names < 80 else []),
    ]
    assert [row.kind for row in made].count("tool.error") == 1
    assert made[-1].content.startswith(f"{count} calls of unknown tools were refused: no_tool_0, ")


async def test_notes_block_is_stored_and_not_shown(house: House) -> None:
    heard: list[str] = []
    published = asyncio.Event()

    def hear(event: Any) -> None:
        if isinstance(event, StreamUpdated):
            heard.append(event.text)
            published.set()

    house.world.bus.on_room("lobby", hear)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        for piece in ("Done.\n", "---ST", "ATE---\nGoal: ship\n", "---END STATE---\n"):
            published.clear()
            yield TextDelta(piece)
            await asyncio.wait_for(published.wait(), 30)

    house.backend.script = script
    made = await house.says("alice", "@qwen go")
    assert said_by(made, house, "qwen") == ["Done."]
    assert made[-1].meta["state"] == "Goal: ship"
    assert {text.strip() for text in heard} <= {"", "Done."}
    kept = await house.world.store.read(lambda conn: notes.read_notes(conn, "lobby", "qwen"))
    assert kept == "Goal: ship"


async def test_namespace_loaded_in_a_turn_is_usable_in_the_next_step(house: House) -> None:
    space = await house.world.change(lambda tx: namespaces.create_namespace(tx, "demo", "x"))
    await house.world.change(
        lambda tx: things.create_thing(
            tx, space.id, "tool", "aloud", qualified_name="demo:aloud", metadata={}
        )
    )

    class Aloud(ProviderBase):
        async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult("heard")

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        match len(request.steps):
            case 0:
                yield ToolCall("a", "global__load_room", {"room": "demo"})
            case 1:
                yield ToolCall("b", "demo__aloud", {})
            case _:
                yield TextDelta(request.completed_calls[-1].text)

    house.providers[space.id] = Aloud()
    house.backend.script = script
    made = await house.says("alice", "@qwen load it and use it")
    assert made[-1].content == "heard"
    before, after, _ = ([offer.name for offer in asked.tools] for asked in house.backend.asked)
    assert before == sorted(before)
    assert after == [*before, "demo__aloud"]
    again = await house.says("alice", "@qwen and again")
    assert again[-1].content == "heard"
