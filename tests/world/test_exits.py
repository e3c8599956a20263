"""Exits, and the way along them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.verbs.views import draw_result
from sshwarma.world import exits
from sshwarma.world.exits import Exit
from support.people import Someone, do, everything, refused

ROOMS = "abcdef"
maps = st.lists(
    st.tuples(st.sampled_from(ROOMS), st.sampled_from(["n", "s", "in"]), st.sampled_from(ROOMS)),
    max_size=18,
)


@given(maps, st.sampled_from(ROOMS), st.sampled_from(ROOMS))
def test_route_is_a_shortest_path(ways: list[tuple[str, str, str]], start: str, to: str) -> None:
    out: dict[str, dict[str, Exit]] = {}
    for origin, direction, target in ways:
        out.setdefault(origin, {})[direction] = Exit(direction, target, target)
    distance = {start: 0}
    for steps in range(len(ROOMS)):
        for origin in [room for room, far in distance.items() if far == steps]:
            for way in out.get(origin, {}).values():
                distance.setdefault(way.to_id, steps + 1)
    walk = exits.find_route(start, to, lambda room: out.get(room, {}).values())
    if to not in distance:
        assert walk is None
        return
    assert walk is not None and len(walk) == distance[to]
    here = start
    for step in walk:
        assert out[here][step.direction] == step
        here = step.to_id
    assert here == to


async def test_portal_creates_and_replaces_exits(alice: Someone) -> None:
    await do(alice, "/create studio")
    await do(alice, "/create attic")
    await do(alice, "/leave")
    made = await do(alice, "/portal n studio")
    assert (made.direction, made.to, made.back, made.replaced) == ("north", "studio", None, None)
    again = await refused(alice, "/portal north studio")
    assert again.message == "The exit north leads to studio already."
    assert (await do(alice, "/portal north attic")).replaced == "studio"
    assert (await do(alice, "/portal up studio --both")).back is not None
    assert (await do(alice, "/exits")).exits == (("north", "attic"), ("up", "studio"))
    await do(alice, "/go u")
    assert (await do(alice, "/exits")).exits == (("down", "lobby"),)
    await do(alice, "/unportal d")
    assert "Unknown exit down." in (await refused(alice, "/go down")).message
    assert "Unknown exit down." in (await refused(alice, "/unportal down")).message
    assert "Unknown room nowhere" in (await refused(alice, "/portal w nowhere")).message
    assert "no opposite" in (await refused(alice, "/portal hatch lobby --both")).message
    await do(alice, "/portal hatch lobby")
    assert (await do(alice, "/go HATCH")).room == "lobby"


async def test_route_works_in_a_loop(alice: Someone, bob: Someone) -> None:
    for room in ("one", "two", "three"):
        await do(alice, f"/create {room}")
    for here, there in (("one", "two"), ("two", "three"), ("three", "one"), ("two", "one")):
        await do(alice, "/leave")
        await do(alice, f"/join {here}")
        await do(alice, f"/portal to-{there} {there}")
    await do(alice, "/join one")
    assert (await do(alice, "/route three")).steps == (("to-two", "two"), ("to-three", "three"))
    assert (await do(alice, "/route one")).steps == ()
    refusal = await refused(alice, "/route lobby")
    assert refusal.message == "lobby cannot be reached through exits from one."
    # Not through a room that one may not enter.
    await do(bob, "/join one")
    await do(alice, "/go to-two")
    await do(alice, "/room invite")
    assert "cannot be reached through exits" in (await refused(bob, "/route three")).message


async def test_exits_to_a_deleted_room_are_removed(alice: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "/portal out lobby --both")
    await do(alice, "/room delete den")
    alice.world.presence.move(alice.connection, "lobby")
    assert (await do(alice, "/exits")).exits == ()
    assert "lobby" not in await alice.world.store.read(exits.read_all_exits)


async def test_failed_move_changes_nothing(alice: Someone, guest: Someone) -> None:
    rooms = len(await alice.world.rooms())
    for line in ("/join wrokshop", "/go north", "/create Bad!", "/fork x"):
        await refused(alice, line)
    for line in ("/join lobby", "/leave"):
        before = await everything(alice.world)
        assert draw_result(await do(alice, line)).plain() == "You are in lobby already."
        assert await everything(alice.world) == before
    await refused(guest, "/create den")
    assert alice.room_id == guest.room_id == "lobby"
    assert len(await alice.world.rooms()) == rooms
