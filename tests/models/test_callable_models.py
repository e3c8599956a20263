"""Callable models by room: rooms name models, and models' settings name rooms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from sshwarma.events import calls_again
from sshwarma.models.backend import StepRequest, StreamPart, TextDelta
from sshwarma.settings import ModelSettings
from sshwarma.verbs.dispatch import invoke, run_line
from sshwarma.verbs.say import SentMessage
from sshwarma.world import agents
from sshwarma.world.causes import is_of_program
from sshwarma.world.errors import Forbidden, WorldError
from sshwarma.wrap.compose import ModelContext
from support.house import House, said_by


async def answer(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
    yield TextDelta("Here.")


OFTEN = "qwen does not answer: a program may ask it 50 times in 10 minutes, until a person speaks."
SILENT = "qwen does not answer in lobby: the room names its models."


async def test_room_names_the_models_that_may_be_called(house: House) -> None:
    house.backend.script = answer
    shown = await run_line(house.caller("alice"), "/room models guide")
    assert shown.models == ("guide",)
    said = await run_line(house.caller("bob"), "@qwen are you there?")
    assert (said.turns, said.note) == ((), SILENT)
    assert [model.name for model in (await run_line(house.caller("bob"), "/models")).models] == [
        "guide"
    ]
    assert (await run_line(house.caller("bob"), "/look")).models == ("guide",)
    assert (await run_line(house.caller("alice"), "/room models none")).models == ()
    assert (await run_line(house.caller("alice"), "/room models all")).models is None
    assert said_by(await house.says("bob", "@qwen now?"), house, "qwen") == ["Here."]


async def test_model_that_is_named_is_kept_in_copies_of_the_room(house: House) -> None:
    alice = house.caller("alice")
    await run_line(alice, "/room models qwen, guide")
    await run_line(alice, "/fork lobby copy")
    copy = next(room for room in await house.world.rooms() if room.name == "copy")
    assert copy.model_ids == frozenset(
        house.world.agents.find(name).id for name in ("qwen", "guide")
    )


async def test_settings_of_a_model_name_its_rooms(house: House) -> None:
    qwen = house.world.agents.find("qwen")
    await house.world.change(lambda tx: agents.update_agent(tx, qwen.id, rooms=["den"]))
    said = await run_line(house.caller("alice"), "@qwen hello")
    assert said.note == "qwen does not answer in lobby: an owner named its rooms."
    await house.world.change(lambda tx: agents.update_agent(tx, qwen.id, rooms=["lobby", "den"]))
    assert len((await run_line(house.caller("alice"), "@qwen hello")).turns) == 1


async def ask(house: House, name: str, *, is_program: bool) -> SentMessage:
    """Ask qwen as a person or a program, and wait for the answer."""

    async def run() -> SentMessage:
        is_of_program.set(is_program)
        said: SentMessage = await run_line(house.caller(name), "@qwen and now?")
        for turn_id in said.turns:
            await house.turns.wait_until_ended(turn_id)
        return said

    return await asyncio.create_task(run())


async def test_model_answers_a_program_only_so_often_without_a_person(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bot that calls a model after each row that it hears comes to an end."""
    monkeypatch.setattr(calls_again, "MAX_PROGRAM_QUESTIONS", 2)
    house.backend.script = answer
    notes = [(await ask(house, "bob", is_program=True)).note for _ in range(3)]
    assert notes == ["", "", OFTEN]
    await house.world.change(lambda tx: agents.create_agent(tx, "carol"))
    assert (await ask(house, "carol", is_program=True)).turns, "another program has its own"
    assert (await ask(house, "bob", is_program=True)).note == OFTEN
    assert (await ask(house, "alice", is_program=False)).turns
    assert (await ask(house, "bob", is_program=True)).turns, "a person has spoken"


async def test_only_moderators_name_the_models_of_a_room(house: House) -> None:
    with pytest.raises(Forbidden, match="the moderate right"):
        await run_line(house.caller("bob"), "/room models none")
    assert (await run_line(house.caller("bob"), "/room models")).models is None
    with pytest.raises(WorldError, match="Unknown model nosuch"):
        await invoke(house.caller("alice"), "room models", {"names": "nosuch"})


@pytest.mark.parametrize("value", ["lab,den", "lab, den", "lab den", ["lab", "den"]])
def test_rooms_of_a_model_are_read_from_a_list_or_a_text(value: object) -> None:
    settings = ModelSettings.model_validate(
        {"name": "m", "kind": "ollama", "model": "x", "rooms": value}
    )
    assert settings.rooms == ("lab", "den")
    assert settings.model_dump(mode="json", exclude_defaults=True)["rooms"] == ["lab", "den"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("@qwne hello", "Unknown agent qwne: nobody was called. Did you mean @qwen?"),
        (
            "hello @qwin, are you there",
            "Unknown agent qwin: nobody was called. Did you mean @qwen?",
        ),
        ("@somebody hello", "Unknown agent somebody: nobody was called."),
        ("mail me @example", ""),
        ("the decorator `@qwne` is fine", ""),
    ],
)
async def test_unknown_mention_near_a_model_says_so_to_its_author(
    house: House, text: str, note: str
) -> None:
    assert (await run_line(house.caller("alice"), text)).note == note


async def test_wrap_writes_the_request_only_where_it_is_shown(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing it imports the library of the provider, which takes seconds."""

    async def compose(*args: object, **values: object) -> ModelContext:
        return ModelContext(())

    async def preview_request(*args: object) -> bytes:
        return b'{"model": "scripted"}'

    monkeypatch.setattr(house.services.composer, "compose", compose)
    monkeypatch.setattr(house.turns, "preview_request", preview_request)
    house.backend.context_tokens = 1_000
    alice = house.caller("alice")
    for caller, is_shown in (
        (alice, False),
        (replace(alice, door="exec"), False),
        (replace(alice, door="exec", wants_json=True), True),
        (replace(alice, door="api"), True),
    ):
        wrapped = await run_line(caller, "/wrap @qwen")
        assert (wrapped.request is not None) == is_shown, caller.door
        assert (await run_line(caller, "/wrap @qwen request")).body == {"model": "scripted"}
