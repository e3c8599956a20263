"""Tokens: made with a key, used over HTTP."""

from __future__ import annotations

import re

from support.driver import Person, Server
from support.driver.covers import covers
from support.http_api import Api
from support.waiting import wait_until


@covers("token new", "token list")
def test_token_scope_limits_the_verbs(world: Server, alice: Person, room: str) -> None:
    made = {
        scope: alice.json(f"token new of-{scope} --scope {scope}")
        for scope in ("read", "act", "build")
    }
    for verb, arguments, reach in (
        ("look", {}, ("read", "act", "build")),
        ("say", {"text": "hello"}, ("act", "build")),
        ("vibe", {"text": "calm"}, ("build",)),
    ):
        for scope, token in made.items():
            status, answer = Api(world, token["token"]).run(verb, **arguments)
            assert status == (200 if scope in reach else 403), answer
            assert scope in reach or f"this token has {scope}" in answer["message"]
    assert [one["label"] for one in alice.json("token list")["tokens"]] == [
        "of-read", "of-act", "of-build",
    ]  # fmt: skip


@covers("token revoke")
def test_a_revoked_token_is_refused(world: Server, alice: Person, bob: Person) -> None:
    made = alice.json("token new laptop")
    assert Api(world, made["token"]).run("look")[0] == 200
    assert bob.run(f"token revoke {made['id']}").status == 1
    assert alice.does(f"token revoke {made['id']}") == "Revoked the token laptop.\n"
    assert Api(world, made["token"]).run("look")[0] == 401
    assert alice.run("token").out == "You have no tokens. /token new LABEL creates one.\n"


@covers("token new")
def test_token_secret_is_shown_once_on_its_own_line(alice: Person) -> None:
    shown = alice.run("token new laptop --days 3").lines
    assert shown[0].startswith("swt_")
    assert shown[1].startswith("It acts as you, with the scope act until ")
    assert shown[0] not in alice.run("token").out


@covers("token list")
def test_lists_show_when_a_token_was_used(world: Server, alice: Person) -> None:
    made = alice.json("token new laptop --days 3")
    [item] = [one for one in alice.json("token list")["tokens"] if one["id"] == made["id"]]
    assert item["last_used_at"] is None and item["created_at"] < item["expires_at"]
    assert re.search(r"  until \S+ \S+  never used  laptop", alice.run("token").out)
    for _ in range(3):
        assert Api(world, made["token"]).run("look")[0] == 200

    def is_used() -> bool:
        [one] = [one for one in world.operate("token_list") if one["id"] == made["id"]]
        return one["last_used_at"] is not None

    wait_until(is_used)  # it is recorded after the answer
    listed = world.cli("token", "list", alice.name).stdout
    assert re.search(r"  act  added 20\S+ \S+  until 20\S+ \S+  used 20\S+ \S+  laptop", listed)
    assert re.search(r"  used [0-9:]+  laptop", alice.run("token").out)
