"""Which lines with a key are refused, as security.md says, and which are said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sshwarma.world.world import World
from support.people import Someone, do, refused

KEY = "sk-proj-AbCdEfGhIjKlMnOp1234567890"
PAGE = Path(__file__).parent.parent.parent / "docs" / "security.md"

REFUSED = (
    f"/model add terse {KEY}",
    f"/model set terse {KEY} x",
    f"/mcp add files -- files --token {KEY}",
    f"/alias key = /say {KEY}",
    f"/broadcast {KEY}",
)
STORED = (f"it is {KEY}", f"/say {KEY}", f"/put paper = {KEY}", f"/vibe {KEY}")


@pytest.mark.parametrize("typed", REFUSED)
async def test_verbs_that_store_settings_refuse_a_key_and_do_not_repeat_it(
    alice: Someone, typed: str
) -> None:
    refusal = await refused(alice, typed)
    assert re.search("looks like|seems to contain", str(refusal))
    assert KEY not in str(refusal) and refusal.span is None


@pytest.mark.parametrize("typed", STORED)
async def test_text_for_others_is_not_searched_for_keys(alice: Someone, typed: str) -> None:
    await do(alice, typed)


async def test_piped_note_is_not_searched_for_keys(world: World, alice: Someone) -> None:
    await do(alice, "/note", f"a log with {KEY}")
    (row,) = await world.last_rows(alice.room_id, 1)
    assert KEY in row.content


def test_security_page_names_every_verb_that_refuses_a_key() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    sentence = re.search(r"(`/[^.]*) refuse a value that seems to contain a key", text)
    assert sentence is not None
    named = re.findall(r"`/([a-z ]+)`", sentence[1])
    assert {" ".join(name.split()) for name in named} == {
        re.split(r" (?:terse|files|key|sk-)", line.removeprefix("/"))[0] for line in REFUSED
    }
