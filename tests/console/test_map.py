"""The page of the map: rooms where their directions say, and its table."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from playwright.sync_api import Page

from console.test_for_everybody import DESK, PHONE, find_violations
from sshwarma.common.limits import MAX_DRAWN_ROOMS
from sshwarma.web.console.map_layout import lay_out, overlaps, place_rooms
from sshwarma.web.console.map_page import MappedRoom, draw_map
from sshwarma.world.exits import Exit
from support.console_tabs import Tabs
from support.driver import Person

Name = Callable[[str], str]


def find_box(page: Page, room: str) -> dict[str, float]:
    box = page.locator(f"svg a[href='/room/{room}'] rect").bounding_box()
    assert box is not None
    return {name: value for name, value in box.items() if isinstance(value, float | int)}


def test_map_shows_rooms_where_their_directions_say(
    alice: Person, bob: Person, room: str, name: Name, tabs: Tabs
) -> None:
    north, east, hall = name("north"), name("east"), name("hall")
    alice.does(f"dig north {north}", f"join {room}", f"dig east {east}", f"join {room}")
    alice.does(f"dig through-the-mirror {hall}", f"join {room}")
    terminal = bob.sit()
    terminal.type(f"/join {north}\r")
    terminal.wait_for(north)
    page = tabs(alice, f"/map?in={room}", viewport=DESK)
    here = find_box(page, room)
    above, right = find_box(page, north), find_box(page, east)
    assert above["y"] < here["y"] and above["x"] == pytest.approx(here["x"], abs=3)
    assert right["x"] > here["x"] and right["y"] == pytest.approx(here["y"], abs=3)
    labels = page.locator("svg text.direction").all_text_contents()
    assert {"north", "south", "east", "west"} <= set(labels)
    assert any(one.startswith("through-the") for one in labels)
    mine = page.locator("svg a.is-here")
    assert mine.get_attribute("href") == f"/room/{room}" and "→" in (mine.text_content() or "")
    row = page.locator("tbody tr", has=page.get_by_role("link", name=room, exact=True))
    assert f"north → {north}" in row.inner_text() and f"east → {east}" in row.inner_text()
    assert bob.name in page.locator("tbody tr", has_text=north).last.inner_text()
    assert bob.name in (
        page.locator(f"svg a[href='/room/{north}']").get_attribute("aria-label") or ""
    )
    page.locator(f"svg a[href='/room/{north}']").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/room/{north}")


def test_private_room_is_on_no_map_of_others(
    alice: Person, bob: Person, room: str, name: Name, tabs: Tabs
) -> None:
    secret = name("secret")
    alice.does(f"dig north {secret}", f"room private --room {secret}")
    page = tabs(bob, f"/map?in={room}")
    assert page.locator(f"svg a[href='/room/{room}']").count() == 1
    assert secret not in page.content()
    page.goto(page.url.replace(room, secret))
    assert page.get_by_role("heading", name="Not done").is_visible()
    assert secret in tabs(alice, f"/map?in={room}").content()


def test_hostile_names_on_the_map_are_text() -> None:
    hostile = "</svg><script>\x1b\u202e"
    way = Exit(hostile, "b", hostile)
    rooms = [
        MappedRoom("a", hostile, "/room/a", "open", True, (way,), (hostile,)),
        MappedRoom("b", "b", '/room/"><script>', "open", False, (), ()),
    ]
    drawn, missing = draw_map(rooms)
    assert missing == 0 and "<script" not in drawn and drawn.count("</svg>") == 1
    assert "\x1b" not in drawn and "\u202e" not in drawn and "style=" not in drawn


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_map_has_no_fault_that_axe_finds(
    alice: Person, room: str, name: Name, tabs: Tabs, size: dict[str, int]
) -> None:
    alice.does(f"dig north {name('north')}", f"join {room}")
    page = tabs(alice, f"/map?in={room}", viewport=size)
    assert find_violations(page) == []
    assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
    assert page.locator("svg[role=group] > title").count() == 1


def test_map_works_without_scripts(alice: Person, room: str, tabs: Tabs) -> None:
    page = tabs(alice, "/map")
    plain = tabs(alice, java_script_enabled=False, storage_state=page.context.storage_state())
    plain.goto(page.url)
    plain.locator(f"svg a[href='/room/{room}']").click()
    assert plain.url.endswith(f"/room/{room}")


def _make_world() -> tuple[list[str], dict[str, list[tuple[str, str]]]]:
    """200 rooms: a street of crossings, and some without exits."""
    rooms = [f"r{number}" for number in range(MAX_DRAWN_ROOMS)]
    exits: dict[str, list[tuple[str, str]]] = {room: [] for room in rooms}
    back = {"north": "south", "east": "west", "up": "down", "southeast": "northwest"}
    for number in range(150):
        for step, direction in ((1, "east"), (7, "north"), (13, "up"), (29, "southeast")):
            if number + step < 150 and number % step == 0:
                exits[rooms[number]].append((direction, rooms[number + step]))
                exits[rooms[number + step]].append((back[direction], rooms[number]))
    return rooms, exits


def test_layout_has_no_overlaps_and_is_the_same_each_time() -> None:
    rooms, exits = _make_world()
    places = place_rooms(rooms, exits)
    assert len(set(places.values())) == len(rooms)
    layout = lay_out(rooms, exits)
    assert layout == lay_out(rooms, exits)
    boxes = [(x - 64, y - 23, x + 64, y + 23) for x, y in layout.places.values()]
    for label in layout.labels:
        half = 6.6 * len(label.text) / 2
        boxes.append((label.x - half, label.y - 6, label.x + half, label.y + 6))
    assert not [pair for pair in combinations(boxes, 2) if overlaps(*pair)]
    assert layout.missing < 0.1 * sum(map(len, exits.values()))


def test_layout_keeps_directions_and_stretches_ways() -> None:
    exits = {"a": [("east", "b"), ("northeast", "c")], "b": [("west", "d"), ("north", "e")]}
    places = place_rooms(["a", "b", "c", "d", "e"], exits)
    x, y = places["a"]
    steps = {room: (column - x, line - y) for room, (column, line) in places.items()}
    assert (steps["b"], steps["c"]) == ((1, 0), (1, -1))
    assert steps["d"] == (-1, 0)  # west of b, and a is between
    assert steps["e"] == (1, -2)  # north of b, and c is between
