"""`--json` at the exec door: answers and refusals of nearly every verb."""

from __future__ import annotations

import json

import pytest

from support.driver import Person

ALONE = (
    "look", "examine room", "examine sshwarma:look", "rooms", "who", "exits", "nav", "room", "inv",
    "inv me", "inv all", "inv room", "vibe", "describe", "journal", "history", "history --stats",
    "history --tools", "search something", "help", "help look", "help accounts", "version", "set",
    "set theme", "alias", "edit brand-new", "say hello", "me waves", "note x", "decide x",
    "idea x", "milestone x", "put notes = x", "link a https://example.org/",
    "equip room sshwarma:fork", "unequip room sshwarma:fork", "drop room notes", "restore notes",
    "move notes me", "portal n lobby",
    "route lobby", "unportal n", "nav on", "vibe v", "describe d", "room invite", "room open",
    "alias z = /who", "set theme light", "leave", "quit",
)  # fmt: skip

REFUSED = (
    ("go nowhere", "not_found"), ("examine zzz", "not_found"), ("join zzz", "not_found"),
    ("portal n", "invalid"), ("history 0", "invalid"), ("gc stale", "forbidden"),
    ("create lobby", "conflict"), ("create SYSTEM", "invalid"), ("restore zzz", "not_found"),
    ("zzz", "not_found"), ("room private --room lobby", "forbidden"), ("reply x", "not_found"),
    ("look --room zzz", "not_found"), ("say", "invalid"), ("inv lobby", "invalid"),
)  # fmt: skip


def test_results_are_valid_json(alice: Person, room: str) -> None:
    for command in ALONE:
        done = alice.run(f"{command} --json")
        assert (command, done.status, done.err) == (command, 0, "")
        assert isinstance(json.loads(done.out), dict), command


@pytest.mark.parametrize(("command", "code"), REFUSED)
def test_refusals_are_valid_json(alice: Person, room: str, command: str, code: str) -> None:
    done = alice.run(f"{command} --json")
    shown = json.loads(done.out)
    is_usage_error = code == "invalid" or command == "zzz"
    assert (shown["error"], done.status) == (code, 2 if is_usage_error else 1)
    assert shown["message"]


def test_json_escapes_control_characters_and_loses_nothing(alice: Person, room: str) -> None:
    text = 'é 日本 🐢 "quoted" \\ \x1b[31m \x9b \u202e \u2028 \x07 tab\there'
    alice.run("say", text)
    done = alice.run("history 1 --json")
    assert done.json["entries"][0]["text"] == text
    assert not [c for c in done.out if c != "\n" and not c.isprintable()]
    ascii_only = alice.run("history 1 --json", b"", env={"LC_ALL": "C"})
    assert ascii_only.raw.isascii()
    assert ascii_only.json["entries"][0]["text"] == text


def test_hint_of_a_refusal_can_be_run(alice: Person, room: str) -> None:
    refused = alice.run("toolset show zzz --json").json
    named, _, rest = refused["hint"].partition(" lists them.")
    assert (rest, alice.run(named).status) == ("", 0)
