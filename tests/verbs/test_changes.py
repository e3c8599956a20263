"""What the verbs that change a room answer, and that only a change is announced."""

from __future__ import annotations

import pytest

from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound
from sshwarma.world.world import World
from support.people import Someone, do, refused


async def notices(world: World, room: str = "lobby") -> list[str]:
    return [row.content for row in await world.last_rows(room, 50) if row.kind == "notice"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/nav off", ["turned navigation off"]),
        ("/room member bob", ["made bob member"]),
        ("/tool disable sshwarma:look", ["disabled the tool sshwarma:look"]),
    ],
)
async def test_a_change_is_announced_once(
    world: World, alice: Someone, bob: Someone, line: str, expected: list[str]
) -> None:
    await do(alice, line)
    assert await notices(world) == expected
    await do(alice, line)
    assert await notices(world) == expected


@pytest.mark.parametrize("line", ["/nav on", "/room open", "/tool enable sshwarma:look"])
async def test_what_is_so_already_is_not_announced(world: World, alice: Someone, line: str) -> None:
    await do(alice, line)
    assert await notices(world) == []


async def test_a_tool_that_is_disabled_already_says_so(alice: Someone) -> None:
    first = await do(alice, "/tool disable sshwarma:look")
    second = await do(alice, "/tool disable sshwarma:look")
    assert first.text == "sshwarma:look is disabled."
    assert second.text == "sshwarma:look is already disabled."


async def test_a_role_that_nobody_has_is_not_taken_away(alice: Someone, bob: Someone) -> None:
    refusal = await refused(alice, "/room remove bob")
    assert isinstance(refusal, Conflict)
    assert refusal.message == "bob has no role in lobby."
    assert (await refused(alice, "/room remove alice")).message == "alice has no role in lobby."


@pytest.mark.parametrize(
    ("verb", "state"), [("mute", "muted in lobby"), ("ban", "banned from lobby")]
)
async def test_only_a_sanction_that_there_is_ends(
    alice: Someone, bob: Someone, verb: str, state: str
) -> None:
    assert (await refused(alice, f"/{verb} bob off")).message == f"bob is not {state}."
    assert (await do(alice, f"/{verb} bob 5")).text == f"bob is {state} for 5 min."
    assert (await do(alice, f"/{verb} bob off")).text == f"bob is no longer {state}."
    assert (await refused(alice, f"/{verb} bob off")).message == f"bob is not {state}."


async def test_an_alias_that_does_not_exist_is_not_removed(alice: Someone) -> None:
    refusal = await refused(alice, "/alias ws = -")
    assert isinstance(refusal, NotFound)
    assert str(refusal) == "You have no alias ws. /alias lists yours."
    await do(alice, "/alias ws = /join workshop")
    assert (await do(alice, "/alias ws = -")).text == "Removed the alias /ws."


async def test_the_prefix_of_a_name_chooses_the_bag(
    world: World, alice: Someone, bob: Someone
) -> None:
    assert (await do(alice, "/put home:z = 1")).bag == "home"
    assert (await do(alice, "/put room:z = 2")).bag == "lobby"
    assert (await do(alice, "/put me:z = 3")).bag == "your bag"
    assert [(await do(alice, f"/examine {bag}:z")).content for bag in ("home", "room", "me")] == [
        "1", "2", "3",
    ]  # fmt: skip
    assert await notices(world) == ["put z"], "what is put elsewhere is nothing to this room"
    assert (await do(alice, "/edit home:z")).line == "/put home:z = 1"
    assert "build right in home" in (await refused(bob, "/put home:z = x")).message
    assert isinstance(await refused(bob, "/edit home:z"), Forbidden)


@pytest.mark.parametrize("line", ["/put me:home:z = 1", "/link home:z https://example.org/"])
async def test_no_name_begins_with_a_bag(alice: Someone, line: str) -> None:
    refusal = await refused(alice, line)
    assert isinstance(refusal, Invalid)
    assert refusal.message == "home:z cannot be the name of a thing: home: is a bag."


async def test_a_draft_of_what_one_may_not_change_is_not_opened(
    alice: Someone, bob: Someone
) -> None:
    await do(alice, "/put note = x")
    for line in ("/edit note", "/edit fresh"):
        assert "build right in lobby" in (await refused(bob, line)).message
    assert (await do(bob, "/edit me:fresh")).line == "/put me:fresh = "
