"""Inventory: bags, equipment, things, garbage."""

from __future__ import annotations

import concurrent.futures
import re
from collections.abc import Callable

from support.driver import Person, Server
from support.driver.covers import covers

Named = Callable[[str], str]

DEFAULTS = (
    "look", "who", "say", "history", "vibe", "inventory", "journal", "note", "decide", "idea",
    "milestone", "rooms", "exits", "join", "leave", "go", "create",
)  # fmt: skip

GLOBAL = [
    f"global:{name}"
    for name in (
        "expand", "find_rooms", "help", "list_rooms", "load_room", "search", "unload_room",
        "version",
    )
]  # fmt: skip


def equipped(person: Person, what: str = "room") -> list[str]:
    return [item["name"] for item in person.json(f"inv {what}")["equipped"]]


# -- equipment


@covers("inv show")
def test_inv_lists_equipment_and_room_contents(alice: Person, room: str) -> None:
    alice.does("put prompt:code-style = small functions", "unequip room *")
    alice.does("equip room sshwarma:look,say")
    lines = alice.run("inv room").lines
    assert lines[0] == "Equipped:"
    assert lines[-5:] == [
        "  ✓ sshwarma:look",
        "  ✓ sshwarma:say",
        "",
        "Room contents:",
        "  · prompt:code-style",
    ]
    lines = alice.run("inv").lines
    assert lines == alice.run("inv show").lines
    assert lines[0] == "Equipped:"
    assert "  ✓ sshwarma:look" in lines
    assert lines[-3:] == ["", "Room contents:", "  · prompt:code-style"]


@covers("inv show")
def test_inv_all_lists_what_can_be_equipped(alice: Person, room: str) -> None:
    alice.does("unequip room sshwarma:history")
    lines = alice.run("inv all").lines
    start = lines.index("Available to equip:")
    assert lines[start - 1] == ""
    assert lines[start + 1] == "  Builtin"
    assert "  ○ sshwarma:history" in lines[start:]
    assert ["○", "workspace:run_command", "[needs", "an", "approval]"] in map(str.split, lines)
    assert "sshwarma:history" not in "\n".join(lines[:start])


@covers("inv show")
def test_inv_all_groups_what_is_equipped_by_where_it_comes_from(alice: Person, room: str) -> None:
    alice.does(
        "unequip room *", "equip room sshwarma:look,workspace:run_command",
        "equip me sshwarma:fork", "put notes = x", "equip room notes", "put me:todo = x",
        "equip me todo", f"tool new {room}:dice = return 4", f"equip room {room}:dice",
    )  # fmt: skip
    lines = alice.run("inv all").lines
    shown = [" ".join(one.split()) for one in lines[: lines.index("")] if "global:" not in one]
    assert shown == [
        "Equipped:", "Builtin", "✓ sshwarma:look", "✓ workspace:run_command [needs an approval]",
        "✓ sshwarma:fork [yours]", "room", f"✓ {room}:dice", "✓ notes [data]",
        "yours", "✓ todo [data, yours]",
    ]  # fmt: skip
    assert "  Builtin" not in alice.run("inv").lines


@covers("inv defaults")
def test_equipment_of_new_rooms_is_shown_to_admins(owner: Person, alice: Person) -> None:
    assert re.search(r"^  ✓ sshwarma:look +\[new rooms\]$", owner.does("inv defaults"), re.M)
    assert "needs the admin right" in alice.run("inv defaults").err


@covers("inv show", "equip", "put")
def test_inv_of_an_agent_shows_its_equipment(alice: Person, bob: Person, room: str) -> None:
    alice.does("put me:todo = water", "equip me sshwarma:fork")
    mine = alice.json("inv me")
    assert [item["name"] for item in mine["equipped"]] == ["sshwarma:fork"]
    assert (mine["bag_title"], [item["name"] for item in mine["bag"]]) == ("Your bag", ["todo"])
    theirs = bob.json(f"inv @{alice.name}")
    assert [item["name"] for item in theirs["equipped"]] == ["sshwarma:fork"]
    assert theirs["bag"] == []
    assert "sshwarma:fork" in equipped(alice, "")
    assert "sshwarma:fork" not in equipped(alice, "room")


def test_marks_are_ascii_when_the_terminal_is_not_utf8(alice: Person, room: str) -> None:
    alice.does("put notes = x", "portal north lobby", "unequip room sshwarma:who")
    done = alice.run("inv all", b"", env={"LC_ALL": "C"})
    assert done.raw.isascii()
    assert "  + sshwarma:look" in done.lines
    assert "  - notes" in done.lines
    assert re.search(r"^  o sshwarma:who$", done.out, re.M)
    assert "north -> lobby" in alice.run("look", b"", env={"LANG": "POSIX"}).out
    screen = alice.sit(env={"LC_ALL": "C"})
    screen.enter("/inv")
    screen.wait_for("+ sshwarma:look")
    assert screen.raw.isascii()


@covers("equip", "unequip")
def test_equip_reports_changed_unchanged_and_unmatched(alice: Person, room: str) -> None:
    alice.does("unequip room *")
    assert equipped(alice) == GLOBAL
    assert alice.does("equip room sshwarma:look") == "Equipped sshwarma:look in this room.\n"
    assert alice.run("equip room sshwarma:look,say,nothing:here").lines == [
        "Equipped sshwarma:say in this room.",
        "Already equipped: sshwarma:look.",
        "Nothing matches nothing:here.",
    ]
    assert alice.does("unequip room sshwarma:say") == "Unequipped sshwarma:say from this room.\n"
    assert alice.does("unequip room sshwarma:say") == "Not equipped: sshwarma:say.\n"
    nothing = alice.run("equip room zzz:*")
    assert nothing.status == 1
    assert "Nothing matches zzz:*." in nothing.err
    assert alice.run("equip nowhere sshwarma:say").status == 2


@covers("unequip", "equip")
def test_navigation_tools_can_be_unequipped(alice: Person, room: str) -> None:
    done = alice.json("unequip room sshwarma:join,leave,go,create")
    assert sorted(done["changed"]) == [f"sshwarma:{n}" for n in ("create", "go", "join", "leave")]
    left = equipped(alice)
    assert not {"sshwarma:join", "sshwarma:leave", "sshwarma:go", "sshwarma:create"} & set(left)
    assert "sshwarma:look" in left
    alice.does("leave", f"join {room}")  # people are not held
    alice.does("equip room sshwarma:join,leave,go,create")
    assert set(equipped(alice)) >= {f"sshwarma:{name}" for name in DEFAULTS}


@covers("equip")
def test_priority_orders_equipment_and_survives_unequip(alice: Person, room: str) -> None:
    alice.does("unequip room *", "equip room sshwarma:look,say,who")
    alice.does("equip room sshwarma:who --priority -2", "equip room sshwarma:say --priority=-1")
    own = [name for name in equipped(alice) if not name.startswith("global:")]
    assert own == ["sshwarma:who", "sshwarma:say", "sshwarma:look"]
    alice.does("unequip room sshwarma:who", "equip room sshwarma:who")
    own = [name for name in equipped(alice) if not name.startswith("global:")]
    assert own == ["sshwarma:who", "sshwarma:say", "sshwarma:look"]


@covers("equip", "unequip", "examine")
def test_unequip_deletes_nothing(alice: Person, room: str) -> None:
    alice.does("put prompt:style = short", "equip room prompt:style", "unequip room prompt:style")
    assert alice.json("examine prompt:style")["content"] == "short"
    alice.does("unequip room sshwarma:look")
    assert alice.json("examine sshwarma:look")["status"] == "available"


def test_room_equipment_wins_over_agent_equipment_of_the_same_name(
    alice: Person, room: str
) -> None:
    alice.does("put prompt:style = of the room", "put me:prompt:style = of alice")
    alice.does("equip me me:prompt:style")
    assert [i["by"] for i in alice.json("inv")["equipped"] if i["kind"] == "data"] == ["agent"]
    alice.does("equip room room:prompt:style")
    assert [i["by"] for i in alice.json("inv")["equipped"] if i["kind"] == "data"] == ["room"]


def test_new_room_copies_the_current_defaults(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    ann = server.owner
    ann.does("create before")
    assert {n for n in equipped(ann) if n.startswith("sshwarma:")} == {
        f"sshwarma:{name}" for name in DEFAULTS
    }
    ann.does("equip defaults sshwarma:fork", "unequip defaults sshwarma:say")
    before = equipped(ann)
    assert "sshwarma:fork" not in before
    assert "sshwarma:say" in before
    ann.does("create after")
    after = equipped(ann)
    assert "sshwarma:fork" in after
    assert "sshwarma:say" not in after
    ann.does("unequip room *")
    assert [n for n in equipped(ann) if not n.startswith("global:")] == []
    ann.hang_up()


@covers("equip", "move", "put")
def test_things_at_home_can_be_equipped_in_every_room(
    owner: Person, alice: Person, room: str, name: Named
) -> None:
    style = f"prompt:{name('style')}"
    owner.does(f"put {style} = plain words", f"move {style} to home")
    alice.does(f"equip room home:{style}")
    assert style in equipped(alice)
    assert "plain words" in alice.does(f"examine home:{style}")


@covers("room builder")
def test_equip_drop_and_put_need_the_build_right(alice: Person, bob: Person, room: str) -> None:
    alice.does("put notes = x")
    bob.does(f"join {room}")
    build = (
        "equip room sshwarma:fork", "unequip room *", "drop room notes", "put a = b",
        "portal north lobby", "describe mine", "link a https://b.example/",
    )  # fmt: skip
    for command in build:
        refused = bob.run(command)
        assert (command, refused.status) == (command, 1)
        assert f"Permission denied: needs the build right in {room}." in refused.err
        assert alice.name in refused.err
    alice.does(f"room builder {bob.name}")
    bob.does("put mine = b")


# -- things


@covers("examine")
def test_examine_prints_details_and_parameters(alice: Person, room: str) -> None:
    lines = alice.run("examine sshwarma:say").lines
    assert lines[:4] == [
        "sshwarma:say - Say something to the room",
        "Kind: tool",
        "Location: sshwarma (namespace)",
        "Status: available",
    ]
    assert "Parameters:" in lines
    assert any(re.match(r"  text +string +the message", line) for line in lines)
    assert re.fullmatch(r"No calls yet\.|Stats: \d+ calls?, .*", lines[-1]), lines[-1]


@covers("put", "edit", "drop", "restore")
def test_put_drop_and_restore_change_data(alice: Person, room: str) -> None:
    assert alice.does("put notes = first") == f"Made notes in {room} (5 bytes).\n"
    assert alice.does("put notes = second one") == f"Changed notes in {room} (10 bytes).\n"
    assert alice.run("put notes", "from\na file\n").out.startswith("Changed notes in")
    assert alice.json("examine notes")["content"] == "from\na file"
    assert alice.does("drop room notes") == "Dropped notes. /restore notes brings it back.\n"
    assert alice.run("examine notes").status == 1
    again = alice.run("drop room notes")
    assert again.status == 1
    assert "Unknown thing notes in this room." in again.err
    alice.does("restore notes")
    assert alice.json("edit notes")["text"] == "from\na file"


@covers("drop")
def test_drop_takes_only_things_in_that_bag(alice: Person, room: str) -> None:
    alice.does("put me:todo = x")
    assert alice.run("drop room todo").status == 1
    assert alice.run("drop room sshwarma:look").status == 1
    assert alice.run("drop room look").status == 1
    alice.does("drop me todo")
    assert alice.json("examine sshwarma:look")["kind"] == "tool"


@covers("move")
def test_things_move_between_bags(alice: Person, room: str) -> None:
    alice.does("put todo = x", "move todo to me")
    assert alice.json("inv")["bag"] == []
    assert [thing["name"] for thing in alice.json("inv me")["bag"]] == ["todo"]
    alice.does("move me:todo room")
    assert [thing["name"] for thing in alice.json("inv")["bag"]] == ["todo"]
    home = alice.run("move todo to home")
    assert home.status == 1
    assert "Permission denied: needs the build right in home." in home.err
    assert alice.run("move sshwarma:look to me").status == 2
    assert alice.run("move room to me").status == 2


def test_take_and_give_are_unknown_verbs(alice: Person) -> None:
    for verb in ("take", "give"):
        done = alice.run(f"{verb} x")
        assert done.status == 2
        assert f"Unknown verb /{verb}." in done.err


@covers("link")
def test_link_creates_a_reference(alice: Person, room: str) -> None:
    alice.does("link design https://example.org/design")
    seen = alice.json("examine design")
    assert (seen["kind"], seen["uri"]) == ("reference", "https://example.org/design")
    assert alice.run("link design not-an-address").status == 2
    assert alice.json("look")["floor"][0]["name"] == "design"


def test_concurrent_creation_of_one_name_succeeds_once(
    alice: Person, bob: Person, name: Named
) -> None:
    wanted = name("race")
    with concurrent.futures.ThreadPoolExecutor() as both:
        done = list(both.map(lambda who: who.run(f"create {wanted}"), (alice, bob)))
    assert sorted(one.status for one in done) == [0, 1]
    lost = next(one for one in done if one.status)
    assert f"A room named {wanted} already exists." in lost.err
    assert alice.run("rooms").out.count(f" {wanted} ") == 1


def test_deleted_name_can_be_reused(alice: Person, name: Named) -> None:
    wanted = name("brief")
    alice.does(f"create {wanted}", f"room delete {wanted}")
    assert alice.json("look")["name"] == "lobby"
    alice.does(f"create {wanted}")
    alice.does("put x = 1", "drop room x", "put x = 2")
    taken = alice.run("restore x")
    assert taken.status == 1
    assert alice.json("examine x")["content"] == "2"


# -- garbage


@covers("gc list", "gc purge", "gc stale", "gc orphans")
def test_gc_purge_needs_yes_and_keeps_referenced_things(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    ann = server.owner
    ann.does("create yard", "put old = 1", "put used = 2", "equip room used", "drop room old")
    ann.does("create closed", "say words that must be kept", "room delete closed")
    dry = ann.json("gc purge 0")
    assert (dry["acted"], ["old", "data"] in dry["found"]) == (False, True)
    shown = ann.run("gc purge 0").out
    assert shown.startswith("Would purge")
    assert "--yes" in shown
    assert ["closed", "room"] in dry["kept"]
    assert ann.json("gc stale 0")["count"] >= 1
    assert ann.json("gc stale 7")["count"] == 0
    assert ann.json("gc purge 7 --yes")["count"] == 0
    assert ann.json("gc orphans")["acted"] is False
    counts = ann.json("gc list")
    assert counts == {"orphans": 0, "deleted": 0, "days": 30, "contents": 0, "size": 0}
    shown = " ".join(ann.does("gc").split())
    assert "0 things deleted 30 days ago or earlier /gc purge --yes" in shown
    assert "0 contents of files that nothing names, 0 B /gc files --yes" in shown
    done = ann.json("gc purge 0 --yes")
    assert done["acted"] is True
    assert ["old", "data"] in done["found"]
    ann.does("join yard")
    assert ann.run("restore old").status == 1
    assert ann.json("gc purge 0")["count"] == 0
    ben = server.person("ben")
    assert ben.run("gc stale").status == 1
    ann.hang_up()
    ben.hang_up()
