"""Whose rights a command has: those of who typed it, and no role on the server."""

from __future__ import annotations

import asyncio

import pytest

from lua_tools.equipped_commands import command
from sshwarma.world.errors import WorldError
from sshwarma.world.world import World
from support.people import Someone, arrive, do, refused
from support.services import services_in
from support.waiting import until


async def test_command_needs_the_tools_that_change_something(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/room builder bob")
    await command(bob, "store", "/put {1} = x", where="me")
    assert "sshwarma:put is not equipped here" in (await refused(bob, "/store one")).message
    await do(bob, "/equip me sshwarma:put")
    assert (await do(bob, "/store one")).name == "one"
    await do(alice, "/tool set sshwarma:put approval on")
    assert "it needs an approval" in (await refused(bob, "/store two")).message
    await command(bob, "call", "/run sshwarma:put name=two text=x", where="me")
    assert "it needs an approval" in (await refused(bob, "/call")).message
    await do(alice, "/tool set sshwarma:put approval off")
    await command(bob, "long", "/run sshwarma:put name=two text=" + "x" * 800, where="me")
    assert "The line of /long" in (await refused(bob, "/long")).message
    await do(alice, "/tool disable sshwarma:put")
    assert "sshwarma:put is unavailable: disabled" in (await refused(bob, "/store two")).message
    assert (await do(bob, "/put two = x")).name == "two", "who types it needs no tool"
    await command(bob, "wave", "/me waves", where="me")
    assert (await do(bob, "/wave")).text == "waves"
    for tool in ("say", "me", "join"):  # what needs no equipping can be disabled, too
        await do(alice, f"/tool disable sshwarma:{tool}")
    for text in ("/say hello", "hello", "/me waves", "/join lobby"):
        await command(bob, "wave", text, where="me")
        assert "is unavailable: disabled" in (await refused(bob, "/wave")).message, text
    for text in ("/equip me sshwarma:put", "/mem session set k = v", "/file put a = x",
                 "/fork den copy"):  # fmt: skip
        await command(bob, "wave", text, where="me")
        assert "is not equipped here" in (await refused(bob, "/wave")).message, text


async def test_command_calls_no_tool_that_is_for_administrators(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/namespace new corp Ours")
    await do(alice, "/tool new corp:danger = return 'ran'")
    await do(alice, "/namespace set corp equip_role admin")
    await do(alice, "/equip me corp:danger")
    await do(bob, "/create trap")
    await do(alice, "/join trap")
    await command(bob, "go1", "/run corp:danger")
    await command(bob, "go2", 'return host.call("corp:danger")')
    for name in ("go1", "go2"):
        with pytest.raises(WorldError, match="corp:danger is not equipped here"):
            result = await do(alice, f"/{name}")
            raise WorldError(str(result))
    await do(bob, "/tool new peek = return host.call('corp:danger')")
    assert "is not equipped here" in str(await do(alice, "/run trap:peek"))
    assert "is not equipped here" in str(await do(alice, "/tool test trap:peek"))
    await do(bob, "/tool new list = return host.call('sshwarma:inventory')")
    assert "danger" not in str(await do(alice, "/run trap:list"))
    await do(bob, "/equip room corp:danger")
    assert "ran" in str(await do(alice, "/run trap:peek")), "the room has it"
    await do(bob, "/unequip room corp:danger")
    assert (await do(alice, "/run corp:danger")).text == "ran"


async def test_script_finds_no_tools_of_rooms_that_a_role_alone_opens(
    alice: Someone, bob: Someone, den: str
) -> None:
    """The owner of the server has equipped it, and a member planted the script."""
    carol = await arrive(alice.world, "carol")
    await do(carol, "/create lair")
    await do(carol, "/room private")
    await do(carol, "/tool new hush = return 'hushed'")
    await do(alice, "/equip me lair:hush")
    assert (await do(alice, "/run lair:hush")).text == "hushed"
    await do(bob, "/create trap")
    await do(alice, "/join trap")
    await do(bob, "/tool new peek = return host.call(args.name)")
    await do(bob, "/tool new peek = -- @param name string\nreturn host.call(args.name)")
    for name in ("lair:hush", "hush", "lair:hus"):
        told = str(await do(alice, f"/run trap:peek name={name}"))
        assert "hushed" not in told and "lair:hush" not in told.replace(f"Unknown tool {name}", "")
    await command(bob, "trap", "/run lair:hush")
    assert "Unknown tool lair:hush" in (await refused(alice, "/trap")).message


async def test_script_asks_nobody_if_its_person_could_not_allow_it(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/tool new danger = return 'ran'")
    await do(alice, "/tool set danger approval on")
    await command(bob, "dare", 'return host.call("den:danger")', where="me")
    with pytest.raises(WorldError, match="A script asks in the name of bob, who alone could give"):
        await asyncio.wait_for(do(bob, "/dare"), 20)


async def test_who_plants_a_script_does_not_allow_what_it_asks(
    world: World, alice: Someone, bob: Someone, den: str
) -> None:
    """The call is in the name of who typed the command."""
    await do(bob, "/create trap")
    await do(alice, "/tool new me:danger = return 'ran'")
    await do(alice, "/tool set me:danger approval on")
    await do(alice, "/equip me me:danger")
    await do(alice, "/join trap")
    await command(bob, "trap", f'return host.call("{alice.caller.agent.name}:danger")')
    asking = asyncio.create_task(do(alice, "/trap"))
    approvals = services_in(world).tools.approvals
    await until(lambda: approvals.list_in(alice.caller.room_id) or asking.done())
    (waiting,) = approvals.list_in(alice.caller.room_id)
    for one, may_allow in ((alice, True), (bob, False)):
        (item,) = (await do(one, "/approvals")).waiting
        assert (item.may_allow, item.may_deny) == (may_allow, True)
    with pytest.raises(WorldError, match="in the name of alice"):
        await do(bob, f"/allow {waiting.number}")
    assert approvals.list_in(alice.caller.room_id) == [waiting]
    await do(alice, f"/allow {waiting.number}")
    assert (await asking).text == "ran"


async def test_script_does_not_run_where_only_a_role_lets_its_caller_in(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(bob, "/create vault")
    await do(bob, "/room private")
    await do(alice, "/join vault")
    await command(alice, "spy", "return room.name", where="me")
    assert "needs the enter right" in (await refused(alice, "/spy")).message
