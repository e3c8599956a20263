"""Rights to tools: what guests equip for themselves, and what the room equips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sshwarma.tools.call import Tools
from sshwarma.tools.call_checks import check_after_wait
from sshwarma.world import owners
from sshwarma.world.errors import Forbidden, NotFound, WorldError
from sshwarma.world.questions import Question
from sshwarma.world.world import World
from support.people import Someone, do, make, tool_names

pytestmark = pytest.mark.usefixtures("server_tools")


@pytest.fixture
async def server_tools(world: World) -> None:
    """An MCP server `files` with a tool `read`, and a Lua tool `den:dice` of a room."""
    server = await make(world, "mcps", "mcp", "files", qualified_name="files")
    await make(world, server.id, "tool", "read", qualified_name="files:read")


async def test_guest_does_not_equip_itself_with_tools_of_a_server(
    world: World, alice: Someone, guest: Someone
) -> None:
    for line in ("/equip me files:read", "/equip me files:*", "/equip me files", "/load files"):
        with pytest.raises(
            Forbidden, match=r"needs the role member.* with files.*; gast has guest"
        ):
            await do(guest, line)
    with pytest.raises(Forbidden, match="needs the role member"):
        await do(alice, "/equip @gast files:read")
    assert await tool_names(world, guest.room_id, guest.id) == await tool_names(
        world, guest.room_id, None
    )
    await do(alice, "/equip room files:read")
    assert "files:read" in await tool_names(world, guest.room_id, guest.id)


async def test_call_of_a_tool_out_of_reach_names_only_what_the_caller_may_do(
    alice: Someone, bob: Someone, guest: Someone
) -> None:
    with pytest.raises(NotFound, match="files:read is not equipped here") as caught:
        await do(guest, "/run files:read")
    assert str(caught.value).endswith(
        "not equipped here. Equipping it needs the role member. Who may build here can equip the"
        " room: /equip room files:read."
    )
    with pytest.raises(NotFound, match="/load files loads its namespace"):
        await do(bob, "/run files:read")


async def test_member_equips_itself_and_loses_the_tools_with_the_role(
    world: World, bob: Someone
) -> None:
    await do(bob, "/equip me files:read")
    assert "files:read" in await tool_names(world, bob.room_id, bob.id)
    await world.change(lambda tx: owners.set_agent_role(tx, bob.id, "guest"))
    assert "files:read" not in await tool_names(world, bob.room_id, bob.id)


async def test_a_namespace_sets_the_role_that_equips_itself(
    world: World, alice: Someone, bob: Someone, guest: Someone
) -> None:
    said = await do(alice, "/namespace set files equip_role guest")
    assert said.text == "equip_role of files is now: guest."
    await do(guest, "/equip me files:read")
    assert "files:read" in await tool_names(world, guest.room_id, guest.id)
    await do(alice, "/namespace set files equip_role admin")
    assert "files:read" not in await tool_names(world, guest.room_id, guest.id)
    with pytest.raises(
        Forbidden,
        match=r"needs the role admin on this server .* files:read; bob has member\. Ask alice\. ",
    ):
        await do(bob, "/equip me files:read")
    said = await do(alice, "/namespace set files equip_role -")
    assert said.text == "equip_role of files is now: the default, member."
    await do(bob, "/equip me files:read")
    with pytest.raises(WorldError, match="Unknown role king"):
        await do(alice, "/namespace set files equip_role king")


async def test_guest_equips_itself_with_what_is_built_in(guest: Someone) -> None:
    assert (await do(guest, "/equip me sshwarma:sql")).changed == ("sshwarma:sql",)


async def test_guest_makes_no_tools_and_no_tokens(guest: Someone) -> None:
    guest.connection.door = "exec"
    for line, what in (
        ("/tool new me:x = return 1", "make a tool"),
        ("/token new mine", "make a token"),
    ):
        with pytest.raises(Forbidden, match="create right"):
            await do(guest, line)
        assert what


async def test_pattern_takes_nothing_from_the_bag_of_another(
    world: World, alice: Someone, bob: Someone
) -> None:
    await make(world, bob.id, "tool", "dice", qualified_name="bob:dice")
    await make(world, alice.id, "tool", "coin", qualified_name="alice:coin")
    changed = (await do(alice, "/equip room *")).changed
    assert "alice:coin" in changed
    assert "bob:dice" not in changed
    with pytest.raises(NotFound):
        await do(alice, "/equip room bob:*")
    assert (await do(alice, "/equip @bob bob:dice")).unmatched == ()


async def test_guest_uses_no_tool_that_a_model_has_equipped_itself_with(
    world: World, alice: Someone, bob: Someone, guest: Someone, qwen: Someone
) -> None:
    await do(alice, "/equip @qwen files:read")
    tools = Tools(world, {})
    asked_by_guest = replace(qwen.caller, question=Question(guest.id, 1))
    with pytest.raises(Forbidden, match=r"to call files[_:]+read, unless the room has equipped it"):
        await tools.find(asked_by_guest, "files:read")
    asked_by_member = replace(qwen.caller, question=Question(bob.id, 1))
    assert (await tools.find(asked_by_member, "files:read")).thing.name == "read"
    waiting = asked_by_member.inside_call("files:read")
    await check_after_wait(waiting)
    await world.change(lambda tx: owners.set_agent_role(tx, bob.id, "guest"))
    with pytest.raises(Forbidden, match=r"to call files[_:]+read, unless the room has equipped it"):
        await check_after_wait(waiting)
    await do(alice, "/equip room files:read")
    assert (await tools.find(asked_by_guest, "files:read")).source == "room"


async def test_equipping_another_with_a_tool_of_a_room_closed_to_it_says_so(
    world: World, alice: Someone, bob: Someone
) -> None:
    await do(alice, "/create hush")
    await do(alice, "/join hush")
    await do(alice, "/room private")
    await make(world, alice.room_id, "tool", "bell", qualified_name="hush:bell")
    await do(alice, "/join lobby")
    told = await do(alice, "/equip @bob hush:bell")
    assert told.note == "Not all can be called: hush:bell is in hush, which bob may not enter."
    assert "hush:bell" not in await tool_names(world, bob.room_id, bob.id)
