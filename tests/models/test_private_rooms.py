"""Private rooms: named to a model only if it and the asker may know of them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from sshwarma.models.backend import RequestSent, StepRequest, StreamPart, TextDelta, ToolCall
from sshwarma.terminal.render import render_plain
from sshwarma.tools.provider import PROVIDER_KEY
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.views import draw_result
from sshwarma.world import equipment
from sshwarma.world.access import Right, set_member
from sshwarma.world.errors import Forbidden
from sshwarma.world.ids import now_ms
from sshwarma.world.questions import Question
from sshwarma.wrap.compose import ModelContext
from support.house import House
from support.kit_tool import IdleProvider, equip_kit_tool
from support.people import make

CALLS: dict[str, dict[str, str]] = {
    "sshwarma__look": {},
    "sshwarma__exits": {},
    "sshwarma__rooms": {},
    "sshwarma__go": {"direction": "west"},
    "sshwarma__join": {"room": "valt"},
    "sshwarma__join_room": {"room": "vault"},
}
"""Calls whose results and refusals name rooms."""


@pytest.fixture
async def vault(house: House) -> House:
    """A private room below the lobby, known to alice and qwen, and not to bob."""
    for line in ("/create vault", "/portal down vault", "/portal north home"):
        await run_line(house.caller("alice"), line)
    alice, qwen = house.world.agents.find("alice"), house.world.agents.find("qwen")
    room = await house.world.find_room("vault")
    await run_line(house.caller("alice").with_room(room.id), "/room private")
    await house.world.change(
        lambda tx: set_member(tx, room.id, qwen.id, created_by=alice.id, role="member")
    )
    return house


async def results_for(
    house: House, asker: str, calls: dict[str, dict[str, str]] = CALLS
) -> dict[str, str]:
    """The results of calls that qwen makes for somebody, by the name of the tool."""
    results: dict[str, str] = {}

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            for name, arguments in calls.items():
                yield ToolCall(name, name.replace("join_room", "join"), dict(arguments))
            return
        results.update((done.call.id, done.text) for done in request.completed_calls)
        yield TextDelta("done")

    house.backend.script = script
    await house.says(asker, "@qwen where can we go?")
    return results


async def test_tools_name_private_rooms_only_for_who_may_know_of_them(vault: House) -> None:
    await run_line(vault.caller("alice"), "/equip room sshwarma:look,exits,rooms,go,join")
    before = await results_for(vault, "bob")
    assert before.keys() == CALLS.keys()
    for name, text in before.items():
        assert "down" not in text, name
        assert "vault" not in text or name == "sshwarma__join_room", name
    assert before["sshwarma__join_room"].startswith("Unknown room vault")
    assert "north" in before["sshwarma__look"]
    shown = await results_for(vault, "alice")
    for name in ("sshwarma__look", "sshwarma__exits", "sshwarma__rooms", "sshwarma__join"):
        assert "vault" in shown[name], name
    assert "down" in shown["sshwarma__go"]
    after = await results_for(vault, "bob")
    assert {name: after[name] for name in CALLS} == before, "nothing is left of alice's question"


async def test_last_request_with_a_private_call_is_for_who_asked(
    vault: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def compose(*args: object, **values: object) -> ModelContext:
        return ModelContext(())

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        done = [one.text for one in request.completed_calls]
        yield RequestSent(json.dumps({"done": done}).encode())
        if not request.steps:
            yield ToolCall("a", "sshwarma__tell", {"name": "alice", "text": "a secret of two"})
        yield TextDelta("I told it.")

    monkeypatch.setattr(vault.services.composer, "compose", compose)
    await vault.says("alice", "/equip room sshwarma:tell")
    vault.backend.script, vault.backend.context_tokens = script, 8_000
    await vault.says("alice", "@qwen tell me")
    shown = await run_line(vault.caller("alice"), "/wrap @qwen last")
    assert len(shown.body["done"]) == 1
    with pytest.raises(Forbidden, match="has private calls for alice"):
        await run_line(vault.caller("bob"), "/wrap @qwen last")


async def test_last_request_that_names_a_private_room_is_hidden_from_others(
    vault: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = await vault.world.find_room("vault")
    context = ModelContext((), private_room_ids=frozenset({room.id}))

    async def compose(*args: object, **values: object) -> ModelContext:
        return context

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield RequestSent(b'{"system": "down to vault"}')
        yield TextDelta("done")

    monkeypatch.setattr(vault.services.composer, "compose", compose)
    vault.backend.script, vault.backend.context_tokens = script, 1_000
    await vault.says("alice", "@qwen hello")
    shown = await run_line(vault.caller("alice"), "/wrap @qwen last")
    assert shown.body == {"system": "down to vault"}
    with pytest.raises(Forbidden, match="a private room that you may not know of"):
        await run_line(vault.caller("bob"), "/wrap @qwen last")
    context = ModelContext(())
    await vault.says("alice", "@qwen hello")
    assert (await run_line(vault.caller("bob"), "/wrap @qwen last")).body


GUEST_CALLS: dict[str, dict[str, str]] = {
    "sshwarma__look": {},
    "sshwarma__history": {},
    "sshwarma__journal": {},
    "sshwarma__inventory": {},
    "sshwarma__exits": {},
    "sshwarma__note": {"text": "seen by qwen"},
}


async def test_model_called_in_a_private_room_has_rights_of_a_visitor(vault: House) -> None:
    """Only there, only while it answers, and only what the person who asks may do."""
    world = vault.world
    room = await world.find_room("vault")
    alice, qwen = world.agents.find("alice"), world.agents.find("qwen")
    await world.change(lambda tx: set_member(tx, room.id, qwen.id, created_by=alice.id, role=None))
    results: dict[str, str] = {}

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if not request.completed_calls:
            for name, arguments in GUEST_CALLS.items():
                yield ToolCall(name, name, dict(arguments))
            return
        results.update((done.call.id, done.text) for done in request.completed_calls)
        yield TextDelta("done")

    vault.backend.script = script
    said = await run_line(vault.caller("alice").with_room(room.id), "@qwen look around")
    await vault.turns.wait_until_ended(said.turns[0])
    assert results.keys() == GUEST_CALLS.keys()
    for name, text in results.items():
        assert "denied" not in text, name
    assert "vault" in results["sshwarma__look"]
    now = now_ms()
    answering = replace(
        vault.caller("qwen"),
        room_id=room.id,
        called_in_id=room.id,
        question=Question(alice.id, 8),
    )
    private_room = await world.room(room.id)
    assert answering.rights_in(private_room, now) == {Right.ENTER, Right.TALK}
    bob = replace(answering, question=Question(world.agents.find("bob").id, 8))
    for caller in (bob, replace(answering, called_in_id="lobby"), vault.caller("qwen")):
        assert not caller.rights_in(private_room, now)
        assert not caller.may_know_of(private_room, now)


async def test_join_of_an_answering_model_says_that_it_stays(vault: House) -> None:
    await run_line(vault.caller("alice"), "/equip room sshwarma:join,look,say")
    joined = await results_for(vault, "alice", {"sshwarma__join": {"room": "vault"}})
    assert joined["sshwarma__join"] == (
        "You may enter vault; you and your tools stay in lobby until this answer ends."
    )
    assert vault.world.agents.find("qwen").room_id != (await vault.world.find_room("vault")).id
    here = await results_for(vault, "alice", {"sshwarma__join": {"room": "lobby"}})
    assert here["sshwarma__join"].startswith("You are in lobby already.")


async def found_by_model(house: House, asker: str, room_name: str) -> set[str]:
    """What qwen finds with both calls when asked in a room: of `one`, `two`, `three`."""
    room = await house.world.find_room(room_name)
    question = Question(house.world.agents.find(asker).id, max_turns=1)
    caller = replace(house.caller("qwen").with_room(room.id), question=question, door="model")
    found = []
    for line in ("/search sapphire", "/sql SELECT content FROM rows WHERE kind != 'tool.call'"):
        text = render_plain(draw_result(await run_line(caller, line)))
        found.append({word for word in ("one", "two", "three") if f"sapphire {word}" in text})
    assert found[0] == found[1]
    return found[0]


@pytest.mark.process  # a report runs in one
async def test_model_reads_other_logs_only_for_who_may_read_them(vault: House) -> None:
    """Rows of the private room and an open one, and the model's message to alice."""
    alice, world = vault.caller("alice"), vault.world
    room = await world.find_room("vault")
    await run_line(alice.with_room(room.id), "sapphire one")
    await run_line(vault.caller("qwen"), "/tell alice sapphire two")
    await run_line(alice.with_room("home"), "sapphire three")
    assert await found_by_model(vault, "bob", "lobby") == {"three"}
    assert await found_by_model(vault, "alice", "lobby") == {"three"}, "bob reads the lobby too"
    assert await found_by_model(vault, "alice", "vault") == {"one", "two", "three"}
    bob = world.agents.find("bob")
    await run_line(alice, "/create den")
    den = await world.find_room("den")
    await run_line(alice.with_room(den.id), "/room private")
    for agent in (bob, world.agents.find("qwen")):
        await run_line(alice.with_room(den.id), f"/room member {agent.name}")
    assert await found_by_model(vault, "alice", "den") == {"three"}, "bob reads the den too"


async def test_tools_are_found_by_the_names_of_the_list(house: House) -> None:
    calls = {
        "global__help": {"topic": "sshwarma__look"},
        "sshwarma__look": {"thing": "sshwarma__look"},
    }
    await run_line(house.caller("alice"), "/equip room sshwarma:look")
    results = await results_for(house, "alice", calls)
    for name, text in results.items():
        assert not text.startswith("Unknown"), name
        assert "look" in text


async def test_question_of_a_script_is_not_that_of_who_ran_it(
    vault: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that it asks has the project of the room alone."""
    alice = vault.caller("alice")
    for caller, is_scripted in (
        (alice, False), (alice.inside_call("own:say"), False),
        (alice.inside_call("t:peek").inside_call("sshwarma:say"), True),
        (replace(alice, command="x"), True),
    ):  # fmt: skip
        asked: list[Question] = []
        start = vault.turns.start_turn

        def keep(
            *args: Any, asked: Question, known: list[Question] = asked, start: Any = start
        ) -> Any:
            known.append(asked)
            return start(*args, asked=asked)

        with monkeypatch.context() as patched:
            patched.setattr(vault.turns, "start_turn", keep)
            said = await run_line(caller, "@qwen hello")
        for turn_id in said.turns:
            await vault.turns.wait_until_ended(turn_id)
        assert [one.is_scripted for one in asked] == [is_scripted]


async def test_question_of_a_script_stays_one_when_it_is_asked_again(
    vault: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = vault.caller("alice")
    asked: list[Question] = []
    start: Any = vault.turns.start_turn

    def keep(*args: Any, asked_now: list[Question] = asked, **values: Any) -> Any:
        asked_now.append(values["asked"])
        return start(*args, **values)

    monkeypatch.setattr(vault.turns, "start_turn", keep)
    for caller, line in (
        (replace(alice, command="x"), "@qwen hello"),
        (alice, "/retry"),
        (alice, "/retry"),
        (alice, "@qwen hello"),
        (alice, "/retry"),
    ):
        said = await run_line(caller, line)
        await vault.turns.wait_until_ended(said.turns[0])
    assert [one.is_scripted for one in asked] == [True, True, True, False, False]


async def test_question_of_a_script_has_the_role_of_a_member(house: House) -> None:
    """A member plants a command that asks a model; who owns the server types it."""
    await equip_kit_tool(house, IdleProvider())
    alice = house.caller("alice")
    for line in ("/namespace set kit equip_role admin", "/unequip room kit:ask"):
        await run_line(alice, line)
    await run_line(alice, "/equip @qwen kit:ask")
    question = Question(alice.agent.id, max_turns=4)
    caller = replace(house.caller("qwen"), question=question, door="model", called_in_id="lobby")
    assert (await house.tools.call(caller, "kit:ask", {})).text == "done"
    planted = replace(caller, command="a question of a script")
    with pytest.raises(Forbidden, match="needs the role admin"):
        await house.tools.call(planted, "kit:ask", {})
    assert planted.readers[1].role == "member"


async def test_model_calls_for_nobody_what_lies_in_a_room_that_is_closed_to_them(
    house: House,
) -> None:
    await equip_kit_tool(house, IdleProvider())
    alice = house.caller("alice")
    for line in ("/create lair", "/unequip room kit:ask"):
        await run_line(alice, line)
    lair = await house.world.find_room("lair")
    await run_line(alice.with_room(lair.id), "/room private")
    space = await make(
        house.world, lair.id, "tool", "hush", qualified_name="lair:hush",
        metadata={PROVIDER_KEY: "kits"},
    )  # fmt: skip
    qwen = house.caller("qwen").agent
    await house.world.change(
        lambda tx: (
            set_member(tx, lair.id, qwen.id, created_by=alice.agent.id, role="member"),
            equipment.equip_things(tx, qwen.id, [space]),
        )
    )
    for name, is_let_in in (("alice", True), ("bob", False)):
        question = Question(house.caller(name).agent.id, max_turns=4)
        caller = replace(
            house.caller("qwen"), question=question, door="model", called_in_id="lobby"
        )
        if is_let_in:
            assert (await house.tools.call(caller, "lair:hush", {})).text == "done"
        else:
            with pytest.raises(Forbidden, match="in a room that bob may not enter"):
                await house.tools.call(caller, "lair:hush", {})


async def test_script_in_an_answer_makes_the_rest_of_its_question_one_of_a_script(
    vault: House,
) -> None:
    alice_id = vault.world.agents.find("alice").id
    question = Question(alice_id, max_turns=4)
    caller = replace(vault.caller("qwen"), question=question, door="model")
    await run_line(caller.inside_call("sshwarma:say"), "/say hello")
    assert not question.is_scripted, "the model says it itself"
    await run_line(caller.inside_call("t:peek").inside_call("sshwarma:say"), "/say hello")
    assert question.is_scripted
