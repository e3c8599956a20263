"""Turns: from a mention to the last row, whatever the backend does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sshwarma import verbs
from sshwarma.common.limits import MAX_CALLS_PER_STEP
from sshwarma.lua_tools.provider import SCRIPT_LIMITS
from sshwarma.models import live_answer, turn_loop
from sshwarma.models import turn_runner as all_turns
from sshwarma.models.backend import (
    BackendError,
    CompletedCall,
    RetryDelay,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
    TurnStep,
)
from sshwarma.models.budget import BudgetLimits, ModelBudgets
from sshwarma.models.guide import GUIDE_GREETING
from sshwarma.models.roster import Roster
from sshwarma.models.truncate_results import truncate_results
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.settings import LimitSettings
from sshwarma.tools.call import Tools
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.help import load_help_topics
from sshwarma.verbs.registry import tool_specs
from sshwarma.verbs.tool_provider import VerbToolProvider
from sshwarma.world import agents, namespaces, notes, things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, NotFound, WorldError
from sshwarma.world.events import StreamEnded, StreamUpdated
from sshwarma.world.row import Row
from sshwarma.world.schema import tool_calls
from sshwarma.world.schema import turns as turns_table
from sshwarma.world.usage import TokenUsage
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer, ModelContext
from sshwarma.wrap.layers import Layer
from support.rows import read_rows_after
from support.services import NoLua, ProviderBase, make_services

Script = Callable[[StepRequest], AsyncGenerator[StreamPart, None]]


@dataclass
class Scripted:
    """A backend that does what a test says, and remembers what it was asked."""

    script: Script
    model: str = "scripted"
    context_tokens: int = 0
    last_failure: None = None
    is_failing: bool = False
    asked: list[StepRequest] = field(default_factory=list)

    def stream(self, request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        self.asked.append(request)
        return self.script(request)


class House:
    """A world with alice, the model qwen, and the guide."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.backend = Scripted(nothing)
        self.backends: dict[str, Any] = {}
        self.providers: dict[str, Any] = dict.fromkeys(("internal", "global"), VerbToolProvider())
        self.tools = Tools(world, self.providers)
        self.limits = BudgetLimits()
        self.budgets = ModelBudgets(world, lambda agent_id: self.limits)
        composer = ContextComposer(NoLua(SCRIPT_LIMITS))
        self.turns = TurnRunner(
            world, self.tools, self.backends, LimitSettings(), composer, self.budgets
        )
        self.services = make_services(
            world, tools=self.tools, composer=composer, turns=self.turns, budgets=self.budgets
        )

    def caller(self, name: str) -> Caller:
        agent = self.world.agents.find(name)
        return Caller(self.world, self.services, LimitSettings(), agent, "lobby", "ssh")

    async def says(self, name: str, text: str) -> list[Row]:
        """Say something, wait until all turns have ended, and return the rows it made."""
        before = next(reversed(await self.world.last_rows("lobby", 1)), None)
        said = await run_line(self.caller(name), text)
        for turn_id in getattr(said, "turns", ()):
            await self.turns.wait_until_ended(turn_id)
        first = before.seq if before else 0
        return await self.world.store.read(lambda conn: read_rows_after(conn, "lobby", first, 100))

    async def statuses(self) -> list[str]:
        def query(conn: Any) -> list[str]:
            return [row.status for row in conn.execute(turns_table.select())]

        return await self.world.store.read(query)


async def nothing(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
    return
    yield


@pytest.fixture
async def house(world_file: Path) -> AsyncIterator[House]:
    verbs.load_verbs()
    world = await World.open(world_file, tool_specs())
    await world.change(lambda tx: agents.create_agent(tx, "alice", role="owner"))
    await world.change(lambda tx: agents.create_agent(tx, "bob"))
    qwen = await world.change(
        lambda tx: agents.create_agent(tx, "qwen", kind="model", role="guest")
    )
    made = House(world)
    made.backends[qwen.id] = made.backend
    roster = await Roster.open(world, (), load_help_topics(), {})
    made.backends |= roster
    yield made
    await made.turns.close()
    await roster.close()
    await world.close()


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
async def test_backend_error_leaves_a_readable_notice(house: House, failure: Exception) -> None:
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


async def test_backend_that_sends_nothing_times_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_loop, "STALL_TIMEOUT_SECONDS", 0.01)

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
    assert sum(row.kind == "tool.call" for row in made) == BudgetLimits().turn_steps
    assert "was stopped after" in made[-1].content


async def test_stop_keeps_the_partial_answer_and_closes_the_turn(house: House) -> None:
    speaking = asyncio.Event()

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("Once upon a time")
        speaking.set()
        await asyncio.Event().wait()

    house.backend.script = script
    said = await run_line(house.caller("bob"), "@qwen tell me everything")
    await asyncio.wait_for(speaking.wait(), 30)
    done = await run_line(house.caller("bob"), "/stop @qwen")
    assert done.text == "Stopped qwen."
    await house.turns.wait_until_ended(said.turns[0])
    tail = await house.world.last_rows("lobby", 3)
    assert [(row.kind, row.content) for row in tail[1:]] == [
        ("chat", "Once upon a time"),
        ("notice", "was stopped by bob"),
    ]
    assert await house.statuses() == ["cancelled"]


@pytest.mark.parametrize("model", ["qwen", "guide"])
@pytest.mark.parametrize(
    ("sanction", "said"),
    [
        ("/mute {}", "{} is muted in lobby for 60 min."),
        ("/mute {} 5 too loud.", "{} is muted in lobby for 5 min: too loud."),
        ("/ban {}", "{} is banned from lobby forever."),
    ],
)
async def test_a_muted_or_banned_model_is_not_asked(
    house: House, model: str, sanction: str, said: str
) -> None:
    alice, bob = house.caller("alice"), house.caller("bob")
    await run_line(alice, sanction.format(model))
    told = await run_line(bob, f"@{model} hi")
    assert (told.turns, told.note) == ((), said.format(model))
    assert not house.backend.asked
    assert await house.statuses() == []
    assert model not in (await run_line(bob, "/look")).models
    assert model not in {one.name for one in (await run_line(bob, "/models")).models}
    await run_line(alice, f"{sanction.split()[0]} {model} off")
    told = await run_line(bob, f"@{model} hi")
    assert (len(told.turns), told.note) == (1, "")


async def test_a_mute_stops_the_answer_of_a_model_and_keeps_it_from_being_asked_again(
    house: House,
) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await asyncio.Event().wait()
        yield TextDelta("never")

    house.backend.script = script
    asked = await run_line(house.caller("bob"), "@qwen wait")
    await run_line(house.caller("alice"), "/mute qwen")
    await house.turns.wait_until_ended(asked.turns[0])
    assert await house.statuses() == ["cancelled"]
    with pytest.raises(WorldError, match=r"^qwen is muted in lobby for 60 min\.$"):
        await run_line(house.caller("bob"), "/retry")


async def test_a_model_does_not_call_a_muted_one(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("and what says @guide?")

    house.backend.script = script
    await run_line(house.caller("alice"), "/mute guide")
    made = await house.says("bob", "@qwen hi")
    assert made[-1].kind == "notice"
    assert made[-1].content.endswith("called guide, but guide is muted in lobby for 60 min")
    assert await house.statuses() == ["completed"]


async def test_only_who_asked_or_a_moderator_may_drop_a_turn(house: House) -> None:
    asked, _answer = await house.says("alice", "@guide hi")
    with pytest.raises(
        Forbidden,
        match=r"^Permission denied: needs the moderate right in lobby for a question of alice\."
        r" Ask [a-z]+\.$",
    ):
        await run_line(house.caller("bob"), f"/message drop {asked.turn_id}")


async def test_only_the_asker_or_an_owner_may_stop_a_turn(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await asyncio.Event().wait()
        yield TextDelta("never")

    house.backend.script = script
    await run_line(house.caller("alice"), "@qwen wait")
    for line in ("/stop", "/stop @qwen"):
        with pytest.raises(
            Forbidden,
            match=r"^Permission denied: needs the moderate right in lobby"
            r" for the answers to alice\. Ask [a-z]+\.$",
        ):
            await run_line(house.caller("bob"), line)
    with pytest.raises(NotFound):
        await run_line(house.caller("alice"), "/stop @guide")
    await run_line(house.caller("alice"), "/stop")
    assert await house.statuses() == ["cancelled"]
    with pytest.raises(NotFound):
        await run_line(house.caller("bob"), "/stop")


async def test_undo_of_a_running_turn_stops_only_that_turn(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await asyncio.Event().wait()
        yield TextDelta("never")

    house.backend.script = script
    hers = await run_line(house.caller("alice"), "@qwen hers")
    his = await run_line(house.caller("bob"), "@qwen his")
    await run_line(house.caller("bob"), "/undo")
    await house.turns.wait_until_ended(his.turns[0])
    assert await house.statuses() == ["open", "dropped"]
    await run_line(house.caller("alice"), "/stop")
    await house.turns.wait_until_ended(hers.turns[0])


async def test_turn_stopped_before_it_starts_is_closed(house: House) -> None:
    asked: list[StepRequest] = []

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        asked.append(request)
        yield TextDelta("never")

    house.backend.script = script
    begin = house.turns.start_turn

    def begin_and_stop(*given: Any, **named: Any) -> None:
        begin(*given, **named)
        assert house.turns.stop("lobby", by="alice") == ["qwen"]
        assert house.turns.stop("lobby") == ["qwen"]

    house.turns.start_turn = begin_and_stop
    made = await house.says("alice", "@qwen wait")
    assert [row.content for row in made] == ["@qwen wait", "was stopped by alice"]
    assert (await house.statuses(), asked, house.turns.stop("lobby")) == (["cancelled"], [], [])


async def test_turn_stopped_twice_is_closed_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("half an answer")
        begun.set()
        await asyncio.Event().wait()

    house.backend.script = script
    said = await run_line(house.caller("alice"), "@qwen wait")
    await begun.wait()
    change = house.world.change

    async def change_and_stop(work: Any) -> Any:
        house.turns.stop("lobby")  # again, while the end is written to a slow disk
        await asyncio.sleep(0.1)
        return await change(work)

    monkeypatch.setattr(house.world, "change", change_and_stop)
    house.turns.stop("lobby")
    await house.turns.wait_until_ended(said.turns[0])
    assert await house.statuses() == ["cancelled"]
    tail = await house.world.last_rows("lobby", 5)
    assert [row.content for row in tail] == ["@qwen wait", "half an answer", "was stopped"]


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


async def test_turn_interrupted_by_a_crash_is_closed_at_the_next_start(world_file: Path) -> None:
    from sshwarma.world import turns

    world = await World.open(world_file, tool_specs())
    qwen = await world.change(lambda tx: agents.create_agent(tx, "qwen", kind="model"))
    await world.change(lambda tx: turns.open_turn(tx, "lobby", qwen.id, None))
    await world.close()
    world = await World.open(world_file, tool_specs())
    tail = await world.last_rows("lobby", 5)
    await world.close()
    assert [(row.kind, row.author_id) for row in tail] == [("notice", qwen.id)]
    assert "cut off" in tail[0].content


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
        ("sing!", GUIDE_GREETING),
    ],
)
async def test_guide_answers_from_the_help_texts(house: House, question: str, says: str) -> None:
    assert says in (await house.says("bob", f"@guide {question}"))[-1].content


async def test_guide_names_a_tool_that_is_not_equipped(house: House) -> None:
    await run_line(house.caller("alice"), "/unequip room sshwarma:who")
    assert (
        "/equip room sshwarma:who" in (await house.says("bob", "@guide who is here?"))[-1].content
    )


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


def said_by(made: list[Row], house: House, name: str) -> list[str]:
    agent = house.world.agents.find(name)
    return [row.content for row in made if row.author_id == agent.id and row.kind == "chat"]


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


async def test_notes_block_is_stored_and_not_shown(house: House) -> None:
    heard: list[str] = []

    def hear(event: Any) -> None:
        if isinstance(event, StreamUpdated):
            heard.append(event.text)

    house.world.bus.on_room("lobby", hear)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        for piece in ("Done.\n", "---ST", "ATE---\nGoal: ship\n", "---END STATE---\n"):
            yield TextDelta(piece)
            await asyncio.sleep(live_answer.PUBLISH_INTERVAL_SECONDS * 1.5)

    house.backend.script = script
    made = await house.says("alice", "@qwen go")
    assert said_by(made, house, "qwen") == ["Done."]
    assert made[-1].meta["state"] == "Goal: ship"
    assert {text.strip() for text in heard} <= {"", "Done."}
    kept = await house.world.store.read(lambda conn: notes.read_notes(conn, "lobby", "qwen"))
    assert kept == "Goal: ship"


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
        while not any("models may call each other in a row" in row.content for row in made):
            await asyncio.sleep(0)
            made = await house.world.last_rows("lobby", 50)
    assert len(said_by(made, house, "qwen")) == 2
    assert len(said_by(made, house, "llama")) == 2
    assert "called qwen, but at most 4 models may call each other in a row" in made[-1].content


async def test_concurrent_answers_per_room_are_bounded(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_turns, "MAX_ANSWERS_PER_ROOM", 2)
    go = asyncio.Event()

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await go.wait()
        yield TextDelta("and what says @guide?")

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


async def test_too_long_context_is_retried_with_a_smaller_budget(house: House) -> None:
    told: list[int] = []

    class Counting:
        async def compose(self, caller: Caller, *_: Any, budget: int) -> ModelContext:
            told.append(budget)
            layer = Layer("x", "turn", "system", text="x" * 3600)
            return ModelContext((layer,))

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if len(told) == 1:
            raise BackendError("too long", is_context_too_long=True)
        yield TextDelta("now it fits")

    house.backend.context_tokens = 8_000
    house.backend.script = script
    house.turns._deps = replace(house.turns._deps, composer=Counting())  # type: ignore[arg-type]
    made = await house.says("alice", "@qwen go")
    assert said_by(made, house, "qwen") == ["now it fits"]
    assert told == [8_000, 500]


async def test_old_results_of_a_long_turn_are_truncated(house: House) -> None:
    steps = tuple(
        TurnStep(
            "", (CompletedCall(ToolCall(str(n), "t", {}), str(n) * 5_000, is_error=False, seq=n),)
        )
        for n in range(1, 9)
    )
    sent = [step.done[0].text for step in truncate_results(steps)]
    assert all(len(text) == 5_000 for text in sent[-5:])
    assert all(len(text) < 600 and "expand row" in text for text in sent[:-5])
    assert truncate_results(steps[:3]) == steps[:3]


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


# Budgets.


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (BudgetLimits(turn_steps=1), "was stopped after 1 step,"),
        (BudgetLimits(turn_tokens=50), "was stopped after 60 of 50 tokens for one turn"),
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
    if limits.turn_steps > 1:  # what it asked for at the last is not done any more
        assert [row.kind for row in made] == ["chat", "chat", "notice"]
    assert await house.statuses() == ["completed"]


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
    assert made[-1].content == "was stopped after 1 s, the time limit of one turn"
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
    house.world.bus.on_room(
        "lobby", lambda event: heard.append(getattr(event, "wait_reason", "-")) if event else None
    )

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield RetryDelay(2.2, "rate limited")
        await asyncio.sleep(live_answer.PUBLISH_INTERVAL_SECONDS * 2)
        yield TextDelta("at last")
        await asyncio.sleep(live_answer.PUBLISH_INTERVAL_SECONDS * 2)

    house.backend.script = script
    await house.says("alice", "@qwen hi")
    assert [text for text, _ in itertools.groupby(heard) if text != "-"] == [
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
    assert (await house.statuses())[-1] == "completed"
