"""Keeping order in a room: roles, mute, kick, ban, private rooms."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from support.driver import Person
from support.driver.covers import covers

Named = Callable[[str], str]


@covers("mute", "unmute")
def test_muted_agent_hears_but_cannot_talk_until_unmuted(
    alice: Person, bob: Person, room: str
) -> None:
    his = bob.sit(room=room)
    assert alice.does(f"mute {bob.name} 10 cool down") == (
        f"{bob.name} is muted in {room} for 10 min.\n"
    )
    his.wait_for(f"· {alice.name} muted {bob.name}: cool down")
    for line in ("hello", "/me waves", "/note this"):
        his.enter(line)
    his.wait_for_count(f"You are muted in {room} for another 10 min: cool down.", 3)
    his.wait_for("not sent: hello")
    alice.does("say you hear this")
    his.wait_for("you hear this")
    alice.does(f"unmute {bob.name} welcome back")
    his.wait_for(f"· {alice.name} unmuted {bob.name}: welcome back")
    his.enter("thank you")
    his.wait_for(f"{bob.name}: thank you")
    texts = [e["text"] for e in alice.json(f"history --room {room}")["entries"] if
             e["kind"] in ("chat", "emote") and e["who"] == bob.name]  # fmt: skip
    assert texts == ["thank you"]
    assert alice.run(f"mute {bob.name} 0").status == 2
    assert alice.run(f"mute {bob.name} soon").status == 2


@covers("kick")
def test_kicked_agent_is_moved_to_the_lobby_and_may_return(
    alice: Person, bob: Person, room: str
) -> None:
    hers, his = alice.sit(room=room), bob.sit(room=room)
    his.type("half a line")
    his.wait_for_input(f"{room}> half a line")
    hers.enter(f"/kick {bob.name} enough for today")
    his.wait_for(f"{alice.name} kicked you out of {room}: enough for today")
    his.wait_for_input("lobby> half a line")
    hers.wait_for(f"· {bob.name} leaves")
    his.press("ctrl-c")
    his.wait_for_prompt("lobby")
    his.enter(f"/join {room}")
    his.wait_for_prompt(room)
    gone = alice.run("kick nobody-at-all")
    assert gone.status == 1


@covers("ban", "unban")
def test_banned_agent_is_evicted_until_unbanned(alice: Person, bob: Person, room: str) -> None:
    his = bob.sit(room=room)
    alice.does(f"ban {bob.name} forever spam")
    his.wait_for(f"You are banned from {room}: spam")
    his.wait_for_prompt("lobby")
    his.enter(f"/join {room}")
    his.wait_for(f"You are banned from {room} forever: spam.")
    his.wait_for_prompt("lobby")
    assert bob.run(f"say hi --room {room}").status == 1
    assert alice.json("room")["members"][-1]["note"] == "banned" or any(
        member["note"] == "banned" for member in alice.json("room")["members"]
    )
    alice.does(f"unban {bob.name}")
    bob.does(f"join {room}")


@covers("room owner", "room remove", "kick", "mute", "ban")
def test_moderation_needs_the_moderate_right_and_a_higher_role(
    alice: Person, bob: Person, owner: Person, room: str
) -> None:
    bob.does(f"join {room}")
    for command in (f"kick {alice.name}", f"mute {alice.name}", f"ban {alice.name}",
                    "room private", f"room owner {bob.name}"):  # fmt: skip
        refused = bob.run(command)
        assert (command, refused.status) == (command, 1)
        assert f"Permission denied: needs the moderate right in {room}." in refused.err
    assert alice.run(f"kick {alice.name}").status == 2
    above = alice.run(f"ban {owner.name}")
    assert above.status == 1
    assert f"needs the own right on this server to ban {owner.name}, an owner" in " ".join(
        above.err.split()
    )
    alice.does(f"room owner {bob.name}")
    equal = alice.run(f"mute {bob.name}")
    assert equal.status == 1
    assert f"needs the admin right on this server to mute {bob.name}, an owner" in " ".join(
        equal.err.split()
    )
    alice.does(f"room remove {bob.name}")
    only = alice.run(f"room remove {alice.name}")
    assert only.status == 1
    assert "needs an owner, and this is the only one" in only.err


@pytest.mark.parametrize("mode", ["private", "invite"])
def test_closing_a_room_evicts_non_members(
    alice: Person, bob: Person, room: str, mode: str
) -> None:
    his = bob.sit(room=room)
    alice.does(f"room {mode}")
    his.wait_for(f"Only members may be in {room} now. Ask {alice.name}.")
    his.wait_for_prompt("lobby")
    alice.does("say a secret")
    his.enter("/look")
    his.wait_for("Here:")
    assert "a secret" not in his.text
    alice.does(f"room member {bob.name}", "room open", f"room {mode}")
    back = bob.sit(room=room)
    alice.does(f"room {mode}", "say welcome")
    back.wait_for(f"{alice.name}: welcome")


@covers("room private")
def test_private_room_is_hidden_from_every_verb(
    alice: Person, bob: Person, room: str, name: Named
) -> None:
    word = name("hidden")
    alice.does(f"say {word}", f"note {word}", "put plan = x", "room private")
    missing = name("missing")
    for command in ("join {}", "route {}", "fork {}", "examine {}", "portal north {}"):
        hidden = bob.run(command.format(room))
        unknown = bob.run(command.format(missing))
        # The names that are near differ with what was typed; the hidden one is never among them.
        hints = r"Did you mean .*\?|/rooms lists them\.|/inv all lists .* here\."
        texts = [re.sub(hints, "", done.err) for done in (hidden, unknown)]
        assert (command, hidden.status, texts[0].replace(room, missing)) == (
            command,
            unknown.status,
            texts[1],
        )
        assert hidden.err.count(room) == texts[0].count(room)
        assert room not in unknown.err
    assert bob.json(f"search {word}")["entries"] == []
    assert room not in bob.run("rooms").out
    for command in ("look", "history", "journal", "say hello", "inv room"):
        assert bob.run(f"{command} --room {room}").status == 1
    alice.sit(room=room)
    assert room not in bob.run("who").out
    alice.does("portal out lobby")
    assert bob.run("room private --room lobby").status == 1


@covers("room delete")
def test_room_delete_asks_for_confirmation_and_evicts_everybody(
    alice: Person, bob: Person, room: str
) -> None:
    his = bob.sit(room=room)
    unsure = alice.run("room delete")
    assert unsure.status == 2
    assert "/room delete needs NAME (the name of this room, to confirm)." in unsure.err
    wrong = alice.run("room delete other")
    assert wrong.status == 2
    assert f"is not the name of this room, which is {room}." in wrong.err
    assert alice.does(f"room delete {room}") == (
        f"Deleted {room}. /room restore {room} brings it back.\n"
    )
    his.wait_for(f"{room} was deleted by {alice.name}.")
    his.wait_for_prompt("lobby")
    assert room not in alice.run("rooms").out
    assert bob.run(f"join {room}").status == 1
    assert alice.run("room delete lobby --room lobby").status == 1


def test_guest_cannot_create_rooms(person: Callable[..., Person], name: Named) -> None:
    guest = person("guest", "guest")
    refused = guest.run(f"create {name('den')}")
    assert refused.status == 1
    assert "Permission denied: needs the create right on this server." in refused.err
    assert guest.run("say but I talk").status == 0


@pytest.mark.parametrize("verb", ["fork", "clone"])
def test_a_copy_of_a_private_room_is_private(
    alice: Person,
    bob: Person,
    person: Callable[..., Person],
    room: str,
    name: Named,
    verb: str,
) -> None:
    alice.does("note the plan", "room private", f"room member {bob.name}")
    copy = name("copy")
    bob.does(f"{verb} {room} {copy}")
    assert bob.json("room")["access"] == "private"
    carol = person("carol")
    refused = carol.run(f"join {copy}")
    assert refused.status == 1
    assert f"Unknown room {copy}" in refused.err
    assert copy not in carol.run("rooms").out


@pytest.mark.parametrize("verb", ["kick", "ban"])
def test_moderation_reason_is_escaped_in_a_plain_shell(
    alice: Person, bob: Person, room: str, verb: str
) -> None:
    shell = bob.pipe()
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdin.write(f"/join {room}\n/say ready\n".encode())
    shell.stdin.flush()
    seen = b""
    while b"ready" not in seen:
        seen += shell.stdout.readline()
    reason = "5 hi \x1b]0;owned\x07\u202e\x9b31m"
    alice.does(f"{verb} {bob.name} {reason}")
    while b"owned" not in seen.rpartition(b"You ")[2] and b" put you " not in seen:
        seen += shell.stdout.readline()
    shell.stdin.write(b"/look\n")  # the shell stays, in the lobby
    shell.stdin.flush()
    while b"Here:" not in seen.rpartition(b"owned")[2]:
        seen += shell.stdout.readline()
    assert b"lobby" in seen.rpartition(b"owned")[2]
    assert b"\x1b" not in seen and b"\x07" not in seen
    assert "\u202e".encode() not in seen and "\x9b".encode() not in seen


def test_ban_from_the_lobby_disconnects(owner: Person, bob: Person) -> None:
    his = bob.sit()
    owner.does(f"ban {bob.name} 5 spam --room lobby")
    his.wait_for("You are banned from lobby: spam")
    bob.sit(prompt=None).wait_for("You may no longer stay in lobby.")
    owner.does(f"ban {bob.name} off --room lobby")
