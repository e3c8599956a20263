"""Rights: the whole table of server role, room role, access mode, mute and ban."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from sshwarma.common.units import MINUTE_MS
from sshwarma.world import access, rooms
from sshwarma.world.access import Member, Right
from sshwarma.world.agents import SERVER_ROLES, Agent, ServerRole
from sshwarma.world.errors import Conflict
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, do, refused

NOW = 1_000_000
LATER, BEFORE = NOW + 1, NOW
E, T, B, M, C = Right.ENTER, Right.TALK, Right.BUILD, Right.MODERATE, Right.CREATE
EVERYTHING = set(Right)

# role on the server; access mode; role in the room; rights
TABLE = [
    *(("owner", mode, role, EVERYTHING) for mode in ("open", "invite", "private")
      for role in (None, "member")),
    *(("admin", mode, role, EVERYTHING - {Right.OWN}) for mode in ("open", "invite", "private")
      for role in (None, "member")),
    ("member", "open", None, {C, E, T}),
    ("member", "open", "member", {C, E, T}),
    ("member", "open", "builder", {C, E, T, B}),
    ("member", "open", "owner", {C, E, T, B, M}),
    *(row for mode in ("invite", "private") for row in (
        ("member", mode, None, {C}),
        ("member", mode, "member", {C, E, T}),
        ("member", mode, "builder", {C, E, T, B}),
        ("member", mode, "owner", {C, E, T, B, M}),
        ("guest", mode, None, set()),
        ("guest", mode, "builder", {E, T, B}),
    )),
    ("guest", "open", None, {E, T}),
    ("guest", "open", "member", {E, T}),
    ("nonsense", "open", None, {E, T}),
    ("nonsense", "private", "nonsense", set()),
]  # fmt: skip


@pytest.mark.parametrize(("role", "mode", "in_room", "expected"), TABLE)
def test_rights_follow_server_role_room_role_and_access_mode(
    role: ServerRole, mode: access.AccessMode, in_room: str | None, expected: set[Right]
) -> None:
    agent = Agent("a", "a", role=role)
    member = Member("a", in_room)
    assert access.compute_rights(agent, mode, member, NOW) == expected
    if in_room is None:
        assert access.compute_rights(agent, mode, None, NOW) == expected
    admin = role in ("owner", "admin")
    server = expected - {E, T, B, M} if not admin else expected

    muted = access.compute_rights(agent, mode, Member("a", in_room, muted_until=LATER), NOW)
    assert muted == (expected if admin else expected - {T})
    banned = access.compute_rights(agent, mode, Member("a", in_room, banned_until=LATER), NOW)
    assert banned == server
    over = Member("a", in_room, muted_until=BEFORE, banned_until=BEFORE)
    assert access.compute_rights(agent, mode, over, NOW) == expected


def test_higher_role_has_all_rights_of_a_lower_one() -> None:
    ranks = [*reversed(SERVER_ROLES)]
    for lower, higher in itertools.pairwise(ranks):
        for mode in ("open", "invite", "private"):
            one = access.compute_rights(Agent("a", "a", role=lower), mode, None, NOW)
            other = access.compute_rights(Agent("a", "a", role=higher), mode, None, NOW)
            assert one <= other


async def test_last_owner_of_a_room_cannot_step_down(alice: Someone, bob: Someone) -> None:
    await do(bob, "/create den")
    for line in ("/room member bob", "/room remove bob", "/room builder bob"):
        assert "needs an owner, and this is the only one" in (await refused(bob, line)).message
    await do(bob, "/room owner alice")
    await do(bob, "/room member bob")
    assert "moderate right in den" in (await refused(bob, "/room private")).message


async def test_concurrent_removal_of_two_owners_keeps_one(
    world: World, alice: Someone, bob: Someone
) -> None:
    await do(bob, "/create den")
    await do(bob, "/room owner alice")

    async def step_down(agent_id: str) -> object:
        return await world.change(
            lambda tx: access.set_member(tx, bob.room_id, agent_id, created_by=None, role=None)
        )

    results = await asyncio.gather(step_down(alice.id), step_down(bob.id), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "Member"]
    assert any(isinstance(result, Conflict) for result in results)


async def test_private_room_is_visible_to_members_only(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "/put secret = 42")
    await do(alice, "/room private")
    assert "Unknown room den" in (await refused(bob, "/join den")).message
    assert "Unknown room den" in (await refused(bob, "/route den")).message
    assert "Unknown thing den here" in (await refused(bob, "/examine den")).message
    assert "den" not in [room.name for room in (await do(bob, "/rooms")).rooms]
    assert "(private)" in [who.room for who in (await do(bob, "/who")).people]
    await do(alice, "/room member bob")
    await do(bob, "/join den")
    assert (await do(bob, "/examine secret")).content == "42"


async def test_invite_room_is_visible_but_not_enterable(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "/room invite")
    assert "enter right in den" in (await refused(bob, "/join den")).message
    assert (await refused(bob, "/join den")).hint_for(PERSON) == "Ask alice."
    assert "den" in [room.name for room in (await do(bob, "/rooms")).rooms]


async def test_refusals_for_mute_and_ban_give_time_and_reason(alice: Someone, bob: Someone) -> None:
    await do(alice, "/mute bob 10 too loud")
    refusal = await refused(bob, "hello")
    assert refusal.message == "You are muted in lobby for another 10 min: too loud."
    await do(bob, "/look")
    await do(alice, "/mute bob off")
    await do(bob, "hello")
    await do(alice, "/create den")
    await do(bob, "/join den")
    await do(alice, "/ban bob")
    await do(bob, "/leave")
    assert (await refused(bob, "/join den")).message.startswith("You are banned from den")
    for minutes in ("0", "-1", "x", "9" * 5000, "1e3"):
        await refused(alice, f"/mute bob {minutes}")
    await refused(bob, "/ban alice")
    await refused(alice, "/ban alice")


async def test_ban_ends_by_the_time_of_the_unit(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create den")
    await do(bob, "/join den")
    await do(alice, "/join den")
    await do(alice, "/ban bob 1")
    assert (await refused(bob, "/create den")).message == "The name den is taken."

    def create_later(tx: Change) -> None:
        tx.now += 2 * MINUTE_MS
        rooms.create_room(tx, "den", bob.agent)

    with pytest.raises(Conflict, match="A room named den already exists"):
        await alice.world.change(create_later)
