"""Access that ends, and what waits for a return: keys, rooms and messages."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import homes


def test_removed_key_ends_only_the_connections_made_with_it(world: Server, alice: Person) -> None:
    other_key = world.stranger("key-of-alice").identity
    again = Person(world, alice.name, other_key)
    world.operate("keys_add", name=alice.name, public_key=again.public_key)
    staying, ending, plain = alice.sit(), again.sit(), again.pipe()
    assert plain.stdin and plain.stdout
    plain.stdin.write(b"/version\n")
    plain.stdin.flush()
    plain.stdout.readline()
    world.operate("keys_remove", name=alice.name, fingerprint=again.fingerprint)
    ending.wait_for("The key of this connection was removed.")
    ending.wait_for_end()
    assert plain.wait(60) == 255
    staying.enter("still here")
    staying.wait_for(f"{alice.name}: still here")
    again.hang_up()


@pytest.mark.sqlite
def test_login_works_while_nothing_can_be_stored() -> None:
    """Logins work on a full disk, to make room; a lock fails writes in the same way."""
    with contextlib.ExitStack() as stack:
        server = Server(stack.enter_context(homes())())
        stack.callback(server.stop)
        ann = server.person("ann")
        other = stack.enter_context(
            contextlib.closing(sqlite3.connect(server.data_dir / "world.db"))
        )
        other.execute("BEGIN IMMEDIATE")
        screen = ann.sit()
        screen.wait_for("Another program locks the database. Nothing was stored.")
        screen.enter("/look")
        screen.wait_for("Here: ann")
        assert "Here: ann" in ann.run("", "/look\n", "-T").out
        other.rollback()
        screen.enter("now it works")
        screen.wait_for("ann: now it works")
        ann.hang_up()


def test_room_made_private_puts_out_who_is_not_a_member(
    alice: Person, bob: Person, room: str
) -> None:
    screen = bob.sit(room=room)
    alice.does(f"room private --room {room}")
    screen.wait_for(f"Only members may be in {room} now.")
    screen.wait_for_prompt("lobby")
    alice.does(f"say the secret word --room {room}")
    bob.does("say still in the lobby")
    screen.wait_for("still in the lobby")
    assert "the secret word" not in screen.text


def test_message_to_somebody_away_waits_unread_for_the_next_login(
    alice: Person, bob: Person
) -> None:
    told = alice.does(f"tell {bob.name} the build is red")
    assert f"{bob.name} is away and will read it at the next login." in told
    screen = bob.sit()
    screen.wait_for("1 message for you while you were away.")
    screen.wait_for(f"{alice.name} → you: the build is red")
    assert "away" not in alice.does(f"tell {bob.name} and now green")
    screen.wait_for("and now green")
    screen.enter("/quit")
    assert screen.wait_for_end() == 0
    again = bob.sit()
    again.enter("/version")
    again.wait_for("sshwarma ")
    assert "while you were away" not in again.text
    done = alice.run("tell guide hello")
    assert done.status == 1
    assert "guide is a model: models read rooms, and no private messages." in done.err


@covers("room restore")
def test_deleted_room_is_restored_with_all_that_it_had(
    alice: Person, bob: Person, name: Callable[[str], str]
) -> None:
    den = name("den")
    alice.does(f"create {den}")
    alice.does("put plan = keep this", "say kept words", "portal down lobby")
    assert f"/room restore {den} brings it back." in alice.does(f"room delete {den}")
    refusal = f"Deleted room {den} not found among the rooms that you owned."
    assert refusal in bob.run(f"room restore {den}").err
    assert bob.run(f"room restore {den}").status == 1
    nothing = f"Nothing named {den} was dropped here."
    assert (
        f"{nothing} Did you mean the room? /room restore {den}" in alice.run(f"restore {den}").err
    )
    assert bob.run(f"restore {den}").err.strip().endswith(nothing)
    alice.does(f"room restore {den}")
    look = alice.does(f"look --room {den}")
    assert "plan" in look
    assert "down → lobby" in look
    assert "kept words" in alice.does(f"history --room {den}")
    alice.does(f"room delete {den}", f"create {den}")
    assert "already exists" in alice.run(f"room restore {den}").err


@covers("who", "look", "examine")
def test_who_lists_models_and_look_sees_through_exits(
    alice: Person, bob: Person, room: str, name: Callable[[str], str]
) -> None:
    listed = {one["name"]: one for one in alice.json("who")["people"]}
    assert (listed["guide"]["kind"], listed["guide"]["room"]) == ("model", "")
    annex = name("annex")
    alice.does(f"create {annex}", "describe an annex of glass")
    alice.does(f"join {room}", f"portal north {annex}")
    for way in ("north", "n", annex):
        assert "an annex of glass" in alice.does(f"look {way}")
    alice.does(f"room private --room {annex}")
    assert bob.run(f"look {annex}").status == 1


def test_mcp_channel_tells_a_silent_person_what_it_is(alice: Person) -> None:
    process = alice.pipe("-o", "RemoteCommand=mcp")
    assert process.stdout
    assert "ssh HOST mcp list" in process.stdout.readline().decode()
    screen = alice.run("mcp", b"", "-tt")
    assert "To list MCP servers: ssh HOST mcp list" in screen.out + screen.err


def test_server_with_a_misspelled_program_is_not_added(world: Server) -> None:
    done = world.owner.run("mcp add typo -- /no/such/program --flag")
    assert done.status == 1
    assert "Program /no/such/program not found. The server was not added." in done.err
    assert "typo" not in world.owner.does("mcp list")


@covers("portal", "unequip", "journal")
def test_calls_that_change_nothing_say_so(alice: Person, room: str) -> None:
    alice.does("portal north lobby")
    again = alice.run("portal north lobby")
    assert (again.status, again.err) == (1, "The exit north leads to lobby already.\n")
    alice.does("put plan = x", "unequip room sshwarma:*")
    assert "None of these is equipped in this room." in alice.does("unequip room sshwarma:*")
    alice.does("note one", "note two", "note three")
    assert [entry["text"] for entry in alice.json("journal 2")["entries"]] == ["two", "three"]
