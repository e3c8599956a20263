"""People manage their own ssh keys; what came with a removed one ends."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import asyncssh
import pytest

from sshwarma.common.exit_status import EXIT_FAILED, EXIT_USAGE
from support.console_tabs import find_link
from support.driver import Person, Server
from support.driver.covers import covers
from support.http_api import Api
from support.waiting import wait_until

HOSTILE = "laptop\x1b]0;owned\x07\x1b[2J\u202egnp.txt\u2066"
"""A comment that would set the title, clear the screen and turn the order of letters."""


def add(world: Server, who: Person) -> Person:
    """Add a second key, as from a shell; return its owner with it."""
    other = Person(world, who.name, world.stranger("other").identity)
    done = who.run("keys add", f"{other.public_key}\n")
    assert done.status == 0, done
    return other


def list_keys(who: Person) -> dict[str, Any]:
    return {key["fingerprint"]: key for key in who.json("keys list")["keys"]}


def has_session(world: Server, cookie: str) -> bool:
    host, _, port = world.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/", headers={"Cookie": cookie})
    status = connection.getresponse().status
    connection.close()
    return status == 200


def sign_in(world: Server, who: Person) -> str:
    """Sign a browser in with a link of the person's key; return its cookie."""
    host, _, port = world.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    body = json.dumps({"link": urlsplit(find_link(who)).fragment})
    connection.request("POST", "/in", body, {"Origin": f"http://{world.http}"})
    cookie = connection.getresponse().getheader("set-cookie") or ""
    connection.close()
    return cookie.partition(";")[0]


@covers("keys add", "keys remove")
def test_second_key_logs_in_and_ends_what_the_first_let_in(world: Server, alice: Person) -> None:
    again = add(world, alice)
    assert "Here: " in again.does("look")
    listed = list_keys(again)
    assert [key["is_of_connection"] for key in listed.values()] == [False, True]
    assert listed[again.fingerprint]["type"] == "ssh-ed25519"
    assert listed[again.fingerprint]["comment"].startswith("of key")
    wait_until(lambda: list_keys(again)[again.fingerprint]["last_used_at"])
    screen, lasting = alice.sit(), again.sit()
    cookie, other_cookie = sign_in(world, alice), sign_in(world, again)
    done = again.run(f"keys remove {alice.fingerprint}")
    assert (done.status, done.err) == (0, "")
    assert done.out == f"Removed the key {alice.fingerprint}. What came with it has ended.\n"
    screen.wait_for("The key of this connection was removed.")
    screen.wait_for_end()
    assert not has_session(world, cookie)
    assert has_session(world, other_cookie)
    assert alice.run("look", b"", "-T").status == 255
    lasting.enter("still here")
    lasting.wait_for(f"{alice.name}: still here")
    requests = [
        (row["door"], row["verb"], row["request"])
        for row in world.operate("audit_list", name=alice.name)
        if row["verb"].startswith("keys")
    ]
    assert requests == [
        ("exec", "keys add", f"/keys add {again.fingerprint}"),
        ("exec", "keys remove", f"/keys remove {alice.fingerprint}"),
    ]
    again.hang_up()


def test_key_of_the_connection_and_the_last_one_need_yes(world: Server, alice: Person) -> None:
    again = add(world, alice)
    own = f"keys remove {again.fingerprint[:20]}"
    done = again.run(own, b"", "-T")
    assert done.status == EXIT_USAGE
    assert "It is the key of this connection, which ends at once" in done.err
    assert "your last key" not in done.err
    assert done.err.endswith(f" /keys remove {again.fingerprint} --yes does it.\n")
    assert again.fingerprint in list_keys(alice)
    screen = again.sit()
    done = again.run(f"{own} --yes", b"", "-T")
    assert (done.status, done.err) == (0, ""), "the command that asked for it says that it did"
    assert done.out.startswith(f"Removed the key {again.fingerprint}.")
    screen.wait_for("The key of this connection was removed.")
    screen.wait_for_end()
    done = alice.run(f"keys remove {alice.fingerprint}")
    assert done.status == EXIT_USAGE
    assert "It is your last key: nobody can log in as you then, until the operator" in done.err
    terminal = alice.sit()
    terminal.enter(f"/keys remove {alice.fingerprint} --yes")
    terminal.wait_for("The key of this connection was removed.")
    terminal.wait_for_end()
    assert terminal.terminal_is_clean() == []
    assert alice.run("look", b"", "-T").status == 255
    assert world.operate("keys_list", name=alice.name) == []
    again.hang_up()


def test_key_of_the_last_owner_stays(world: Server) -> None:
    owner = world.owner
    done = owner.run(f"keys remove {owner.fingerprint} --yes")
    assert done.status == EXIT_FAILED
    assert "The world needs an owner with a key, and this is the only one." in done.err


def test_keys_are_typed_at_a_prompt_and_told_apart(world: Server, alice: Person) -> None:
    other = world.stranger("other")
    screen = alice.sit(columns=120)
    screen.enter(f"/keys add {other.public_key}")
    screen.wait_for("Who has it logs in as you.")
    screen.enter(f"/keys add {other.public_key}")
    screen.wait_for("You have the key")
    screen.enter("/keys")
    screen.wait_for(f"{alice.fingerprint}  ssh-ed25519  the key of this connection")
    screen.wait_for(re.compile(r"added \d\d:\d\d, never used  of key"))
    again = alice.json(f"keys add {other.public_key}")
    assert (again["fingerprint"], again["is_new"]) == (other.fingerprint, False)


@covers("keys list")
def test_hostile_comment_reaches_no_terminal(world: Server, alice: Person) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519", comment=HOSTILE)
    line = key.export_public_key().decode()
    shown = [alice.run("keys add", line), alice.run("keys list"), alice.run("keys --json")]
    screen = alice.sit()
    screen.enter("/keys")
    screen.wait_for("gnp.txt")
    raw = [done.raw for done in shown]
    for data in raw:
        assert b"laptop" in data
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\u2066]", data.decode())
    assert "\u202e" not in screen.text and "owned" in screen.text
    assert list_keys(alice)[key.get_fingerprint()]["comment"] == HOSTILE


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "not an OpenSSH public key such as: ssh-ed25519 AAAA... you@host."),
        ("ssh-ed25519 AAAAC3Nz me@host", "; what follows ssh-ed25519 is cut or damaged."),
        ("ssh-ed25519", "; nothing follows ssh-ed25519."),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n", "use the file whose name ends in .pub."),
        ("ssh-ed25519-cert-v01@openssh.com AAAA", "this is a certificate; add the plain key"),
    ],
)
def test_malformed_keys_are_refused_with_what_would_be_right(
    alice: Person, line: str, reason: str
) -> None:
    done = alice.run("keys add", line)
    assert done.status == EXIT_USAGE
    said = " ".join(done.err.split())
    assert reason in said
    assert "ssh-ed25519 AAAA... you@host" in said
    assert said.endswith("From a shell: ssh HOST keys add < ~/.ssh/id_ed25519.pub")
    assert len(list_keys(alice)) == 1


def test_key_of_somebody_else_is_refused_without_a_name(alice: Person, bob: Person) -> None:
    done = alice.run(f"keys add {bob.public_key}")
    assert done.status == EXIT_FAILED
    assert "That key already belongs to somebody else." in done.err
    assert bob.name not in done.err
    told = alice.run("keys remove --json SHA256:nothing-of-mine")
    assert told.json["error"] == "not_found" and told.json["hint"] == "/keys lists yours."


def test_new_key_ends_with_the_key_that_added_it(world: Server, name: Callable[[str], str]) -> None:
    """A guest for a day would otherwise stay for good."""
    ann = world.stranger(name("ann"))
    public = str(ann.identity.with_suffix(".pub"))
    assert world.cli("keys", "add", ann.name, public, "--days", "1").returncode == 0
    again = add(world, ann)
    listed = list_keys(ann)
    assert listed[again.fingerprint]["expires_at"] == listed[ann.fingerprint]["expires_at"]
    assert listed[again.fingerprint]["expires_at"] is not None
    ann.hang_up()


def test_tokens_and_commands_of_others_manage_no_keys(
    world: Server, alice: Person, bob: Person, room: str
) -> None:
    """The key of another in a command of a room would open the account of its caller."""
    token = world.operate("token_new", name=alice.name, scope="approve")["token"]
    api, other = Api(world, token), world.stranger("x")
    for verb, arguments in (
        ("keys_list", {}),
        ("keys_add", {"public_key": other.public_key}),
        ("keys_remove", {"fingerprint": alice.fingerprint, "yes": True}),
    ):
        status, answer = api.run(verb, **arguments)
        assert status == 403, answer
        assert "works only over ssh, with your ssh key" in answer["message"]
    alice.does(f"join {room}", f"put command:greet = /keys add {other.public_key}")
    alice.does("equip room command:greet")
    done = bob.run(f"greet --room {room}")
    assert done.status == EXIT_FAILED
    assert "/greet may not run /keys add for you: it is not a tool." in done.err
    assert len(list_keys(alice)) == len(list_keys(bob)) == 1
