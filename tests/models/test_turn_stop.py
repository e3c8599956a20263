"""Turns that end early: /stop, /undo, a mute, a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from sshwarma.models.backend import (
    StepRequest,
    StreamPart,
    TextDelta,
)
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import access, agents
from sshwarma.world.access import TokenScope
from sshwarma.world.databases import Location
from sshwarma.world.errors import Forbidden, NotFound, WorldError
from sshwarma.world.ids import now_ms
from sshwarma.world.world import World
from support.house import House
from support.people import everything


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
    received = await run_line(bob, f"@{model} hi")
    assert (received.turns, received.note) == ((), said.format(model))
    assert not house.backend.asked
    assert await house.statuses() == []
    assert model not in (await run_line(bob, "/look")).models
    assert model not in {one.name for one in (await run_line(bob, "/models")).models}
    await run_line(alice, f"{sanction.split()[0]} {model} off")
    received = await run_line(bob, f"@{model} hi")
    assert (len(received.turns), received.note) == (1, "")


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
        yield TextDelta("Hm.\n@guide what do you say?")

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


@pytest.mark.parametrize("typed", ["@qwen tell me everything", "/retry"])
async def test_stored_question_is_answered_though_its_line_was_cancelled(
    house: House, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if typed == "/retry":
        said = await run_line(house.caller("bob"), "@qwen hi")
        await house.turns.wait_until_ended(said.turns[0])
    change = house.world.change

    async def change_and_cancel(work: Any, **options: Any) -> Any:
        result = await change(work, **options)
        asking.cancel()
        await asyncio.sleep(0)
        return result

    asking = asyncio.create_task(run_line(house.caller("bob"), typed))
    monkeypatch.setattr(house.world, "change", change_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await asking
    monkeypatch.undo()
    (turn_id,) = house.turns._running
    await house.turns.wait_until_ended(turn_id)
    assert (await house.statuses())[-1] == "completed"


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


@pytest.mark.parametrize("line", ["/undo", "/message drop {}", "/branch switch {}"])
async def test_turn_of_another_needs_the_scope_build(house: House, line: str) -> None:
    """The room's owner has the right; a token of the scope act does not reach so far."""
    await house.world.change(lambda tx: agents.create_agent(tx, "carol"))
    asked, *_ = await house.says("bob", "@guide hi")
    line = line.format(asked.turn_id)
    before = await everything(house.world)
    with pytest.raises(Forbidden, match="needs the scope build; this token has act"):
        await run_line(replace(house.caller("alice"), scope=TokenScope.ACT), line)
    with pytest.raises(WorldError, match=r"the moderate right in lobby|have not asked a question"):
        await run_line(house.caller("carol"), line)
    assert await everything(house.world) == before
    if "switch" not in line:
        await run_line(house.caller("alice"), line)
        assert await house.statuses() == ["dropped"]


async def test_undo_with_the_scope_act_drops_the_own_question(house: House) -> None:
    hers, *_ = await house.says("alice", "@guide hers")
    await house.says("bob", "@guide his")
    done = await run_line(replace(house.caller("alice"), scope=TokenScope.ACT), "/undo")
    assert hers.turn_id is not None and f"Dropped turn {hers.turn_id[-6:]}" in done.text
    assert await house.statuses() == ["dropped", "completed"]


async def test_stop_of_the_answer_to_another_needs_the_scope_build(house: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await asyncio.Event().wait()
        yield TextDelta("never")

    house.backend.script = script
    his = await run_line(house.caller("bob"), "@qwen wait")
    narrow = replace(house.caller("alice"), scope=TokenScope.ACT)
    with pytest.raises(Forbidden, match="needs the scope build; this token has act"):
        await run_line(narrow, "/stop")
    hers = await run_line(narrow, "@qwen wait")
    await run_line(narrow, "/stop")
    await house.turns.wait_until_ended(hers.turns[0])
    assert await house.statuses() == ["open", "cancelled"]
    await run_line(house.caller("alice"), "/stop")
    await house.turns.wait_until_ended(his.turns[0])


async def test_owner_whose_ban_is_over_stops_the_answers_of_others(house: House) -> None:
    carol = await house.world.change(lambda tx: agents.create_agent(tx, "carol"))
    long_ago = now_ms() - 60_000
    await house.world.change(
        lambda tx: access.set_member(
            tx, "lobby", carol.id, created_by=None, role="owner", banned_until=long_ago
        )
    )

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        await asyncio.Event().wait()
        yield TextDelta("never")

    house.backend.script = script
    his = await run_line(house.caller("bob"), "@qwen wait")
    assert (await run_line(house.caller("carol"), "/stop")).text == "Stopped qwen."
    await house.turns.wait_until_ended(his.turns[0])


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
        for _ in range(100):  # turns of the loop, in which a second end would begin
            await asyncio.sleep(0)
        return await change(work)

    monkeypatch.setattr(house.world, "change", change_and_stop)
    house.turns.stop("lobby")
    await house.turns.wait_until_ended(said.turns[0])
    assert await house.statuses() == ["cancelled"]
    tail = await house.world.last_rows("lobby", 5)
    assert [row.content for row in tail] == ["@qwen wait", "half an answer", "was stopped"]


async def test_turn_interrupted_by_a_crash_is_closed_at_the_next_start(database: Location) -> None:
    from sshwarma.world import turns

    world = await World.open(database, tool_specs())
    qwen = await world.change(lambda tx: agents.create_agent(tx, "qwen", kind="model"))
    await world.change(lambda tx: turns.open_turn(tx, "lobby", qwen.id, None))
    await world.close()
    world = await World.open(database, tool_specs())
    tail = await world.last_rows("lobby", 5)
    await world.close()
    assert [(row.kind, row.author_id) for row in tail] == [("notice", qwen.id)]
    assert "cut off" in tail[0].content
