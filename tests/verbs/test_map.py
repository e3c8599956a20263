"""The map: where rooms are drawn, what is left out, and where it ends."""

from __future__ import annotations

import re

from sshwarma.common.limits import MAX_MAP_DEPTH, MAX_MAP_ROOMS
from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.verbs.views import draw_result
from sshwarma.world import exits, things
from sshwarma.world.store import Change
from support.people import Someone, do, refused


async def drawn(who: Someone, line: str = "/map") -> list[str]:
    """The rows of a map in a terminal of 40 columns."""
    block = draw_result(await do(who, line))
    rows = render_block(block, DisplayOptions(width=40)).decode()
    return re.sub(r"\x1b\[[0-9;]*m", "", rows).split("\r\n")


async def make_rooms(who: Someone, **ways: str) -> None:
    """Make rooms around the lobby: `den="north"` is north of it, and back."""
    for name, direction in ways.items():
        await do(who, f"/create {name}")
        await do(who, "/join lobby")
        await do(who, f"/portal {direction} {name} --both")


async def test_map_draws_rooms_where_directions_say(alice: Someone) -> None:
    await make_rooms(alice, shop="north", den="east", cave="southwest", attic="up", lab="northwest")
    await do(alice, "/join shop")
    await do(alice, "/portal west lab --both")
    await do(alice, "/join lobby")
    rows = [row.rstrip() for row in await drawn(alice)]
    assert rows[:13] == [
        "   [lab]-------[shop]",
        "           \\      |",
        "              [*lobby]-------[den]",
        "           /",
        "  [cave]",
        "",
        "* lobby 1 here: east → den, north →",
        "    shop, northwest → lab, southwest →",
        "    cave, up → attic",
        "  den: west → lobby",
        "  shop: south → lobby, west → lab",
        "  lab: east → shop, southeast → lobby",
        "  cave: northeast → lobby",
    ]
    assert rows[-2] == "6 rooms within 3 exits."


async def test_every_row_of_a_map_fits_40_columns(alice: Someone) -> None:
    await make_rooms(alice, **{"a-room-with-a-very-long-name": "west", "another-long-name": "east"})
    assert all(len(row) <= 40 for row in await drawn(alice))


async def test_private_rooms_are_left_out_of_the_map_of_others(
    alice: Someone, bob: Someone
) -> None:
    await make_rooms(alice, shop="north", vault="south")
    await do(alice, "/join vault")
    await do(alice, "/room private")
    await do(alice, "/create behind")
    await do(alice, "/join vault")
    await do(alice, "/portal east behind --both")
    await do(alice, "/join lobby")
    shown = await do(bob, "/map")
    assert [room.name for room in shown.rooms] == ["lobby", "shop"]
    assert "vault" not in str(shown)
    assert "behind" not in str(shown)
    assert {room.name for room in (await do(alice, "/map")).rooms} >= {"vault", "behind"}


async def test_rooms_that_one_may_not_enter_show_no_exits(alice: Someone, bob: Someone) -> None:
    await make_rooms(alice, club="north")
    await do(alice, "/join club")
    await do(alice, "/room invite")
    await do(alice, "/create backroom")
    await do(alice, "/join club")
    await do(alice, "/portal north backroom")
    await do(alice, "/join lobby")
    shown = await do(bob, "/map")
    assert [(room.name, room.access, room.exits) for room in shown.rooms[1:]] == [
        ("club", "invite", ())
    ]


async def test_depth_of_a_map_is_limited(alice: Someone) -> None:
    def build(tx: Change) -> None:
        before = "lobby"
        for number in range(12):
            room = things.create_thing(tx, "rooms", "room", f"r{number}")
            exits.open_exit(tx, before, "east", room.id, alice.id)
            before = room.id

    await alice.world.change(build)
    shown = await do(alice, "/map 2")
    assert [room.name for room in shown.rooms] == ["lobby", "r0", "r1"]
    assert shown.is_cut
    assert (await drawn(alice, "/map 2"))[-2] == "3 rooms within 2 exits; there are more."
    assert len((await do(alice, f"/map {MAX_MAP_DEPTH}")).rooms) == MAX_MAP_DEPTH + 1
    assert f"at most {MAX_MAP_DEPTH}" in str(await refused(alice, "/map 9"))
    assert "at least 1" in str(await refused(alice, "/map 0"))


async def test_number_of_rooms_on_a_map_is_limited(alice: Someone) -> None:
    def build(tx: Change) -> None:
        for number in range(MAX_MAP_ROOMS + 5):
            room = things.create_thing(tx, "rooms", "room", f"r{number}")
            exits.open_exit(tx, "lobby", f"door{number}", room.id, alice.id)

    await alice.world.change(build)
    shown = await do(alice, "/map 1")
    assert len(shown.rooms) == MAX_MAP_ROOMS
    assert shown.is_cut


async def test_rooms_on_one_place_are_drawn_once(alice: Someone) -> None:
    """Two ways to the same place on paper, and a room without any exit."""
    await make_rooms(alice, shop="north", den="east")
    await do(alice, "/join den")
    await do(alice, "/create loft")
    await do(alice, "/join den")
    await do(alice, "/portal northwest loft")
    shown = await do(alice, "/map")
    places = [(room.column, room.row) for room in shown.rooms if room.column is not None]
    assert len(places) == len(set(places)) == 3
    await do(alice, "/join loft")
    assert [row.rstrip() for row in await drawn(alice)] == [
        "* loft 1 here: no exits",
        "1 room within 3 exits.",
        "",
    ]
