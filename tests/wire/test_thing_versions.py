"""Versions, names and rooms, as people type them."""

from __future__ import annotations

from support.driver import Person
from support.driver.covers import covers


@covers("history of", "history diff", "revert", "rename")
def test_a_text_has_versions_that_come_back(alice: Person, room: str) -> None:
    for text in ("one", "two"):
        alice.run(f"put plan = {text}")
    listed = alice.run("history plan").out
    assert listed.startswith("Versions of plan\n  2  3 B") and "replaced by" in listed
    assert alice.run("history of plan").out == listed
    assert "-one\n" in alice.run("history diff plan").out.replace("  ", "")
    assert alice.run("revert plan").out.startswith("plan has the text of version 1 again.")
    assert alice.json("examine plan")["content"] == "one"
    assert alice.run("rename plan todo").out.startswith("plan is todo now.")
    assert len(alice.json("history of todo")["versions"]) == 3


@covers("dig", "lua", "rename")
def test_a_room_is_made_behind_an_exit_and_renamed(alice: Person, room: str) -> None:
    cellar = f"{room}-cellar"
    assert alice.run(f"dig down {cellar}").out.startswith(f"Created exit: down → {cellar}")
    assert ["down", cellar] in alice.json("exits")["exits"]
    alice.does("go down", f"rename room {cellar}-old")
    assert alice.run("lua room.name").out.splitlines()[-1].strip() == f"{cellar}-old"
    assert alice.json("lua 6 * 7")["text"] == "42"
    alice.does("go up")
