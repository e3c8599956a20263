"""Rooms on paper: the map, and a room as a document, from the stock ssh client."""

from __future__ import annotations

import json
from collections.abc import Callable

from support.driver import Person
from support.driver.covers import covers

Named = Callable[[str], str]


@covers("map")
def test_map_of_40_columns_shows_rooms_and_exits(alice: Person, room: str, name: Named) -> None:
    shop, attic = name("shop"), name("attic")
    alice.does(f"create {shop}", f"join {room}", f"portal north {shop} --both")
    alice.does(f"create {attic}", "room private", f"join {room}", f"portal up {attic}")
    screen = alice.sit(40, 30, room=room)
    screen.enter("/map")
    screen.wait_for("3 rooms within 3 exits.")
    plan = [row for row in screen.lines if row.strip().startswith(("[", "|"))]
    assert [row.strip()[0] for row in plan] == ["[", "|", "["]
    assert f"[*{room[:8]}"[:6] in plan[2]
    shown = alice.json(f"map --room {room}")
    assert [(found["name"], found["column"], found["row"]) for found in shown["rooms"]] == [
        (room, 0, 0),
        (shop, 0, -1),
        (attic, None, None),
    ]


@covers("export room")
def test_export_writes_a_room_as_markdown_and_json(alice: Person, bob: Person, room: str) -> None:
    alice.does("say hello there", "put plan = the plan", "room private")
    text = alice.run(f"export --room {room}").out
    assert text.startswith(f"# {room}\n")
    assert "### plan (data)\n\n```\nthe plan\n```\n" in text
    assert f"**{alice.name}**: hello there\n" in text
    data = json.loads(alice.run(f"export room --room {room} --json").out)
    assert data["texts"] == [{"name": "plan", "kind": "data", "text": "the plan"}]
    assert "hello there" in [row["text"] for row in data["rows"]]
    refused = bob.run(f"export --room {room}")
    assert (refused.status, refused.out) == (1, "")
    screen = alice.sit(room=room)
    screen.enter("/export")
    screen.wait_for(f"ssh HOST export room --room {room} > {room}.md")
