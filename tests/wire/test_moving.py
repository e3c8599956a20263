"""Moving and looking: rooms, exits, routes, presence."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.relay import Relay

Named = Callable[[str], str]

# -- looking


@covers("look", "describe", "vibe", "put", "portal")
def test_look_shows_text_people_exits_and_things(alice: Person, bob: Person, room: str) -> None:
    alice.does(
        "describe A long bench under north light.",
        "vibe quiet, focused",
        "put prompt:code-style = Prefer small functions.",
        "portal north lobby",
    )
    bob.sit(room=room)
    assert alice.run("look").lines == [
        room,
        "  A long bench under north light.",
        "  Vibe: quiet, focused",
        f"  Here: {bob.name}",
        "  Models: @guide",
        "  Exits: north → lobby",
        "  On the floor:",
        "    · prompt:code-style  [data]",
    ]


@covers("look", "examine", "link", "put")
def test_look_and_examine_work_for_every_kind(
    alice: Person, bob: Person, room: str, name: Named
) -> None:
    alice.does("put notes = one\ntwo", "link design https://example.org/d", "put me:todo = water")
    kinds = {
        "notes": "data",
        "design": "reference",
        "me:todo": "data",
        "sshwarma:look": "tool",
        "room": "room",
        "lobby": "room",
        "me": "agent",
        f"@{bob.name}": "agent",
        "internal": "container",
        "defaults": "container",
        "mcps": "container",
        "rooms": "container",
        "world": "container",
    }
    for thing, kind in kinds.items():
        seen = alice.json(f"examine {thing}")
        assert (thing, seen["kind"]) == (thing, kind)
        if thing != "lobby":  # /look looks into a room
            assert alice.run(f"look {thing}").out == alice.run(f"examine {thing}").out
    assert "one\n  two" in alice.does("examine notes")
    assert "URI: https://example.org/d" in alice.does("examine design")
    missing = alice.run("examine nothing-of-that-name")
    assert missing.status == 1
    assert "Unknown thing nothing-of-that-name here." in missing.err


@covers("rooms", "room private")
def test_rooms_are_sorted_and_private_ones_listed_only_to_members(
    alice: Person, bob: Person, name: Named
) -> None:
    first, second = sorted((name("atelier"), name("attic")))
    alice.does(f"create {second}", "room private", f"create {first}", "describe Under the roof.")
    alice.sit(room=first)
    mine = alice.json("rooms")["rooms"]
    names = [room["name"] for room in mine]
    assert names.index(first) + 1 == names.index(second)
    shown = {room["name"]: room for room in mine}
    assert shown[first]["people"] == 1
    assert shown[first]["description"] == "Under the roof."
    assert re.search(rf"→\s+{first}\s+1 here", alice.run("rooms").out)
    assert alice.run("rooms").out == alice.run("rooms").out
    theirs = bob.run("rooms").out
    assert first in theirs
    assert second not in theirs
    assert second not in bob.run(f"join {second}").err.replace(f"Unknown room {second}", "")


@covers("who")
def test_who_shows_room_door_and_idle_time_but_hides_private_rooms(
    alice: Person, bob: Person, room: str
) -> None:
    alice.does("room private")
    alice.sit(room=room)
    by_alice = {who["name"]: who for who in alice.json("who")["people"]}
    assert by_alice[alice.name]["room"] == room
    assert by_alice[alice.name]["door"] == "ssh"
    assert by_alice[alice.name]["idle_seconds"] < 60
    by_bob = {who["name"]: who for who in bob.json("who")["people"]}
    assert by_bob[alice.name]["room"] == "(private)"
    assert room not in bob.run("who").out


# -- going


@covers("join", "leave", "create", "fork")
def test_join_leave_create_and_fork_move_the_caller(
    alice: Person, bob: Person, name: Named
) -> None:
    first, copy = name("works"), name("copy")
    screen = bob.sit()
    screen.enter(f"/create {first}")
    screen.wait_for_prompt(first)
    screen.wait_for(f"Created {first}.")
    screen.enter("/put rules = be kind")
    screen.wait_for("Made rules in")
    screen.enter("/vibe calm")
    screen.wait_for("is now: calm")
    screen.enter("/leave")
    screen.wait_for_prompt("lobby")
    screen.enter(f"/join {first}")
    screen.wait_for_prompt(first)
    screen.enter(f"/fork {first} {copy}")
    screen.wait_for_prompt(copy)
    assert bob.json(f"look --room {copy}")["vibe"] == "calm"
    assert [thing["name"] for thing in bob.json(f"look --room {copy}")["floor"]] == ["rules"]
    bob.does(f"fork {first}")
    assert bob.json("look")["name"] == f"{first}-2"


@covers("go", "portal", "exits")
@pytest.mark.parametrize(
    ("typed", "full"),
    [("n", "north"), ("s", "south"), ("e", "east"), ("w", "west"), ("u", "up"), ("d", "down"),
     ("ne", "northeast"), ("nw", "northwest"), ("se", "southeast"), ("sw", "southwest"),
     ("in", "in"), ("out", "out"), ("trapdoor", "trapdoor")],
)  # fmt: skip
def test_go_takes_short_long_and_custom_directions(
    alice: Person, room: str, typed: str, full: str
) -> None:
    assert alice.does(f"portal {typed} lobby") == f"Created exit: {full} → lobby\n"
    assert alice.json("exits")["exits"] == [[full, "lobby"]]
    assert alice.json(f"go {full}") == {
        "room": "lobby",
        "came_from": room,
        "made": False,
        "stays": False,
    }
    alice.does(f"join {room}")
    assert alice.json(f"go {typed}")["room"] == "lobby"


@covers("join", "go")
def test_failed_join_or_go_moves_nobody_and_makes_no_room(
    alice: Person, bob: Person, room: str, name: Named
) -> None:
    private, wrong = name("secret"), name("mistyped")
    bob.does(f"create {private}", "room private")
    screen = alice.sit(room=room)
    rooms = alice.run("rooms").out
    for line, words in (
        (f"/join {wrong}", f"Unknown room {wrong}."),
        (f"/join {private}", f"Unknown room {private}."),
        ("/go nowhere", "Unknown exit nowhere."),
        ("/join \x16\x1b[31m", "Unknown"),
    ):
        screen.enter(line)
        screen.wait_for(words)
        screen.wait_for_prompt(room)
    screen.enter("still here")
    screen.wait_for(f"{alice.name}: still here")
    assert alice.json(f"look --room {room}")["here"][0]["name"] == alice.name
    assert alice.run("rooms").out == rooms
    assert wrong not in rooms


@covers("room show", "room invite", "room open", "room member", "room remove", "join")
def test_an_invite_room_is_listed_but_only_members_enter(
    alice: Person, bob: Person, room: str
) -> None:
    alice.does("room invite")
    assert f"{room}  " in bob.run("rooms").out
    refused = bob.run(f"join {room}")
    assert refused.status == 1
    assert f"Permission denied: needs the enter right in {room}." in refused.err
    assert alice.name in refused.err
    assert bob.run(f"look --room {room}").status == 1
    assert bob.run(f"history --room {room}").status == 1
    alice.does(f"room member {bob.name}")
    bob.does(f"join {room}", "say thanks")
    screen = bob.sit(room=room)
    alice.does(f"room remove {bob.name}")
    screen.wait_for_prompt("lobby")
    screen.wait_for(f"You are no longer a member of {room}.")
    assert bob.run(f"join {room}").status == 1
    alice.does("room open")
    bob.does(f"join {room}")
    assert alice.does("room show") == alice.does("room")
    assert f"{room} is open: anyone may enter and talk." in alice.does("room show")


# -- exits


@covers("portal", "unportal", "exits")
def test_portal_is_one_way_without_both_and_reports_a_replaced_exit(
    alice: Person, room: str, name: Named
) -> None:
    hall, attic = name("hall"), name("attic")
    alice.does(f"create {hall}", f"create {attic}", f"join {room}")
    assert alice.does(f"portal north {hall}") == f"Created exit: north → {hall}\n"
    assert alice.json(f"exits --room {hall}")["exits"] == []
    assert alice.run(f"portal n {attic}").lines == [
        f"Created exit: north → {attic}",
        f"It replaced the exit to {hall}.",
    ]
    assert alice.run(f"portal up {hall} --both").lines == [
        f"Created exit: up → {hall}",
        f"And the way back: down → {room} (from {hall})",
    ]
    assert alice.run(f"exits --room {hall}").lines == [f"Exits from {hall}:", f"  down → {room}"]
    missing = alice.run(f"portal east {name('nowhere')}")
    assert missing.status == 1
    assert "Unknown room" in missing.err
    assert alice.does("unportal up") == f"Closed exit: up → {hall}\n"
    assert alice.json("exits")["exits"] == [["north", attic]]
    assert alice.run("unportal up").status == 1


@covers("route")
def test_route_is_a_shortest_path_and_survives_loops(alice: Person, room: str, name: Named) -> None:
    a, b, c = name("aa"), name("ab"), name("ae")
    alice.does(
        f"create {a}", f"create {b}", f"create {c}", f"portal back {room}",
        f"join {room}", f"portal e {a}", f"portal loop {room}",
        f"join {a}", f"portal e {b}", f"portal w {room}",
        f"join {b}", f"portal e {c}", f"portal w {a}",
        f"join {room}",
    )  # fmt: skip
    assert alice.json(f"route {c}")["steps"] == [["east", a], ["east", b], ["east", c]]
    assert alice.run(f"route {c}").lines[0] == f"{room} to {c}: east, east, east"
    alice.does(f"portal up {b}")
    assert alice.json(f"route {c}")["steps"] == [["up", b], ["east", c]]
    alice.does(f"join {c}")
    assert alice.json(f"route {room}")["steps"] == [["back", room]]
    alice.does("leave")
    none = alice.run(f"route {c}")
    assert none.status == 1
    assert f"{c} cannot be reached through exits from lobby." in none.err


@covers("nav show", "nav on", "nav off")
def test_nav_off_is_shown_and_does_not_confine_people(alice: Person, room: str) -> None:
    alice.does("portal out lobby", "nav off")
    assert alice.json("look")["nav"] is False
    assert "Navigation is off" in alice.does("nav")
    assert alice.does("nav show") == alice.does("nav")
    alice.does("go out", f"join {room}", "nav on")
    assert alice.json("nav") == {"room": room, "on": True}


@covers("vibe", "describe")
def test_vibe_and_description_are_set_by_builders(alice: Person, bob: Person, room: str) -> None:
    screen = bob.sit(room=room)
    assert alice.does("vibe slow mornings") == f"The vibe of {room} is now: slow mornings\n"
    screen.wait_for("set the vibe: slow mornings")
    screen.wait_for(lambda: "· slow mornings ·" in screen.lines[-1])
    assert bob.run(f"vibe --room {room}").out == f"The vibe of {room} is: slow mornings\n"
    assert bob.run(f"vibe mine --room {room}").status == 1
    assert alice.does("vibe -") == f"The vibe of {room} is now empty.\n"
    assert alice.does("describe one\ntwo").count("\n") >= 1
    assert alice.run("describe " + "x" * 4001).status == 2
    assert alice.json("describe")["text"] == "one\ntwo"


# -- presence


def test_arrival_and_departure_are_announced_once(alice: Person, bob: Person, room: str) -> None:
    watch = alice.sit(room=room)
    first = bob.sit(room=room)
    watch.wait_for(f"· {bob.name} arrives from lobby")
    second = bob.sit(room=room)
    first.enter("/leave")
    first.wait_for_prompt("lobby")
    assert watch.count(bob.name) == watch.count(f"· {bob.name} arrives from lobby"), watch.text
    second.press("ctrl-d")
    assert second.wait_for_end() == 0
    watch.wait_for(f"· {bob.name} leaves")
    assert watch.count(f"{bob.name} arrives") == 1
    assert watch.count(f"{bob.name} leaves") == 1
    entries = alice.json(f"history --room {room}")["entries"]
    received = [entry["text"] for entry in entries if entry["who"] == bob.name]
    assert received == ["arrives from lobby", "leaves"]


def test_several_connections_are_one_arrival_and_one_departure(alice: Person, bob: Person) -> None:
    watch = alice.sit()
    first = bob.sit()
    watch.wait_for(f"· {bob.name} arrives")
    second = bob.sit()
    second.enter("the second is here")
    watch.wait_for("the second is here")
    first.press("ctrl-d")
    first.wait_for_end()
    second.enter("the first is gone")
    watch.wait_for("the first is gone")
    assert watch.count(f"{bob.name} leaves") == 0
    here = [one["name"] for one in alice.json("look --room lobby")["here"]]
    assert here.count(bob.name) == 1
    second.kill()
    watch.wait_for(f"· {bob.name} leaves")
    assert watch.count(f"{bob.name} arrives") == 1


def test_arrivals_do_not_push_messages_out_of_sight(alice: Person, bob: Person, room: str) -> None:
    alice.does("say the one line that matters")
    his = bob.sit()
    for _ in range(12):
        his.enter(f"/join {room}")
        his.wait_for_prompt(room)
        his.enter("/leave")
        his.wait_for_prompt("lobby")
    before = his.count("the one line that matters")
    his.enter(f"/join {room}")
    his.wait_for_prompt(room)
    his.wait_for_count("the one line that matters", before + 1)
    alice.does("set history 0")
    hers = alice.sit(room=room)
    hers.wait_for(f"Here: {bob.name}")
    assert hers.count("the one line that matters") == 0


def test_move_is_announced_in_both_rooms(alice: Person, bob: Person, room: str) -> None:
    watch, lobby = alice.sit(room=room), alice.sit()
    screen = bob.sit(room=room)
    lobby.wait_for(f"· {bob.name} goes to {room}")
    screen.enter("/leave")
    watch.wait_for(f"· {bob.name} goes to lobby")
    lobby.wait_for(f"· {bob.name} arrives from {room}")


def test_killed_client_leaves_no_presence(alice: Person, bob: Person, room: str) -> None:
    watch, screen = alice.sit(room=room), bob.sit(room=room)
    screen.type("half a line")
    screen.wait_for_input(f"{room}> half a line")
    screen.kill()
    watch.wait_for(f"· {bob.name} leaves")
    assert bob.name not in alice.run("look").out
    assert bob.name not in alice.run("who").out


def test_silent_connection_is_dropped_by_keepalive(
    serve: Callable[..., Server],
) -> None:
    """No FIN and no RST reach the server, as when a laptop is closed."""
    server = serve(ssh__keepalive_seconds=1)
    ann, ben = server.person("ann"), server.person("ben")
    with Relay(server.port) as relay:
        watch = ann.sit()
        ben.sit(via=relay.port)
        watch.wait_for("· ben arrives")
        relay.freeze()
        watch.wait_for("· ben leaves")
    assert [who["name"] for who in ann.json("who")["people"]] == ["ann", "guide"]
    ann.hang_up()
    ben.hang_up()


def test_login_lands_in_the_lobby_unless_start_is_last(alice: Person, room: str) -> None:
    screen = alice.sit()
    screen.wait_for(f"You were last in {room}. Go back: /join {room}")
    alice.does("set start last")
    screen.enter(f"/join {room}")
    screen.wait_for_prompt(room)
    alice.sit(prompt=room)
