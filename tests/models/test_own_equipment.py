"""What a model loads while it answers stays its own in that room only."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from sshwarma.models.backend import StepRequest, StreamPart, TextDelta, ToolCall
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.views import render_for
from sshwarma.world import agents, equipment, garbage, things
from sshwarma.world.caller import Caller
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from support.house import House

TOOL = "git__commit"


@pytest.fixture
async def git(house: House) -> House:
    """A house with the namespace git, which nobody has loaded, and the room den."""

    def add_tool(tx: Change) -> None:
        space = things.find_by_qualified_name(tx.conn, "git")
        assert space is not None
        metadata = {"input_schema": {"type": "object", "properties": {}}}
        name = "git:commit"
        things.create_thing(tx, space.id, "tool", "commit", qualified_name=name, metadata=metadata)

    for line in ("/namespace new git Version control", "/create den", "/skill new tidy = Be tidy."):
        await run_line(house.caller("alice"), line)
    await house.world.change(add_tool)
    return house


async def call(house: House, tool: str, /, asker: str = "bob", **arguments: object) -> str:
    """Let the model call a tool in the lobby for somebody; return what it is sent."""

    async def answer(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.steps:
            yield TextDelta("done")
        else:
            yield ToolCall("a", tool, arguments)

    house.backend.script = answer
    await house.says(asker, "@qwen go on")
    return house.backend.asked[-1].completed_calls[0].text


async def offers(house: House, who: str, room: str) -> bool:
    """Return whether the model is offered git's tool when asked in a room."""
    caller = house.caller(who)
    room_id = (await house.world.find_room(room)).id

    async def answer(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta("done")

    house.backend.script = answer
    said = await run_line(caller.with_room(room_id), "@qwen which tools?")
    for turn_id in said.turns:
        await house.turns.wait_until_ended(turn_id)
    return TOOL in {tool.name for tool in house.backend.asked[-1].tools}


async def shown(caller: Caller, line: str) -> str:
    return render_for(PERSON, await run_line(caller, line))


async def test_what_a_model_loads_it_has_in_that_room_only(git: House) -> None:
    told = await call(git, "global__load_room", room="git")
    assert told == f"Loaded namespace git on you in this room.\nIts tools: {TOOL}"
    assert TOOL in {tool.name for tool in git.backend.asked[-1].tools}, "already the next step"
    assert await offers(git, "alice", "lobby"), "also for who asks later"
    assert not await offers(git, "bob", "den")
    assert "already loaded on you in this room" in await call(git, "global__load_room", room="git")
    told = await call(git, "global__unload_room", room="git")
    assert told == "Unloaded namespace git from you in this room."
    assert not await offers(git, "alice", "lobby")


async def test_load_for_a_guest_says_that_the_tools_need_a_role(git: House) -> None:
    await git.world.change(lambda tx: agents.create_agent(tx, "gast", role="guest"))
    told = await call(git, "global__load_room", "gast", room="git")
    assert told.startswith("git was not loaded, because none of its tools could be called: gast")
    assert "gast needs the role member for them, unless the room equips them" in told
    assert not await offers(git, "alice", "lobby")
    await run_line(git.caller("alice"), "/load git room")
    assert TOOL in await call(git, "global__load_room", "gast", room="git")


async def test_model_is_offered_no_verb_that_it_is_refused(git: House) -> None:
    """Of this room's tools it may neither create rooms nor set the vibe.

    It reads the vibe anyway.
    """
    alice = git.caller("alice")
    assert await offers(git, "alice", "lobby") is False
    names = {tool.name for tool in git.backend.asked[-1].tools}
    assert {"sshwarma__look", "sshwarma__say"} <= names
    assert not {"sshwarma__create", "sshwarma__vibe"} & names
    await run_line(alice, "/room builder qwen")
    await offers(git, "alice", "lobby")
    assert "sshwarma__vibe" in {tool.name for tool in git.backend.asked[-1].tools}


async def test_people_see_and_take_back_what_a_model_loaded(git: House) -> None:
    await call(git, "global__load_room", room="git")
    alice = git.caller("alice")
    assert "git:commit" in await shown(alice, "/inv @qwen")
    den = (await git.world.find_room("den")).id
    assert "git:commit" not in await shown(alice.with_room(den), "/inv @qwen")
    unloaded = await shown(alice.with_room(den), "/unload git @qwen")
    assert "Unloaded namespace git from @qwen." in unloaded
    assert not await offers(git, "alice", "lobby")
    assert "git:commit" not in await shown(alice, "/inv @qwen")


async def test_what_people_load_on_a_model_it_has_everywhere(git: House) -> None:
    alice = git.caller("alice")
    await run_line(alice, "/equip room sshwarma:equip,unequip")
    told = await call(git, "sshwarma__unequip", context="me", patterns="sshwarma:look")
    assert "Not equipped" in told, "the room has it"
    await call(git, "sshwarma__equip", context="@qwen", patterns="git:commit")
    assert await offers(git, "bob", "lobby")
    assert not await offers(git, "bob", "den")
    await run_line(alice, "/load git @qwen")
    assert await offers(git, "bob", "lobby")
    assert await offers(git, "bob", "den")
    told = await call(git, "global__unload_room", room="git")
    assert "git is not loaded on you in this room. Still on" in told


async def test_a_skill_that_a_model_activates_is_active_in_that_room(git: House) -> None:
    await run_line(git.caller("alice"), "/equip room sshwarma:skill_activate")
    told = await call(git, "sshwarma__skill_activate", name="tidy")
    assert told == "Skill tidy is active on you in this room."
    qwen = git.world.agents.find("qwen").id
    den = (await git.world.find_room("den")).id
    assert [item.thing.name for item in (await git.world.loadout("lobby", qwen)).data]
    assert not (await git.world.loadout(den, qwen)).data


async def test_purged_room_takes_what_agents_had_in_it(git: House) -> None:
    await call(git, "global__load_room", room="git")

    def purge(tx: Change) -> int:
        equipment.delete_agents_in_rooms(tx, {"lobby"})
        garbage.purge_deleted_things(tx, 0)
        return len(things.read_children(tx.conn, equipment.AGENTS_IN_ROOMS))

    assert await git.world.change(purge) == 0
    assert not await offers(git, "bob", "lobby")
