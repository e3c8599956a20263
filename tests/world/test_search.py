"""Finding what was said."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_SEARCH_WORDS
from sshwarma.terminal.render import render_plain
from sshwarma.verbs.views import draw_result
from sshwarma.world import search
from support.people import Someone, do, refused


async def found(who: Someone, words: str) -> list[str]:
    return [entry.text for entry in (await do(who, f"/search {words}")).entries]


async def test_words_phrases_and_prefixes_match(alice: Someone) -> None:
    said = ["the relay box is cold", "a box of relays", "cold Café tonight", "relay the box"]
    for words in said:
        await do(alice, words)
    assert await found(alice, "relay box") == ["relay the box", "the relay box is cold"]
    assert await found(alice, '"relay box"') == ["the relay box is cold"]
    assert await found(alice, "box rel") == ["relay the box", "a box of relays", said[0]]
    assert await found(alice, "cafe") == ["cold Café tonight"]
    assert await found(alice, '"cold caf') == ["cold Café tonight"]
    assert await found(alice, '"cold caf"') == []
    assert len(await found(alice, "--n 2 box")) == 2
    assert await found(alice, "penguin") == []


@pytest.mark.parametrize("operator", ["NOT", "AND", "OR", "NEAR(a b)", "content:", "^a", "a*b",
                                      "(", "-x", "{a b}", "a + b", "col : x"])  # fmt: skip
async def test_fts_operators_are_treated_as_text(alice: Someone, operator: str) -> None:
    await do(alice, f"we typed {operator} here")
    await do(alice, "nothing of the kind")
    if search.build_fts_query(operator):
        assert await found(alice, f"typed {operator}") == [f"we typed {operator} here"]
    else:
        assert "must contain a word" in (await refused(alice, f"/search {operator}")).message


@settings(max_examples=150, deadline=None)
@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=40)
    | st.text('"* ()a\x00:^', max_size=12)
)
def test_any_text_is_a_valid_fts_query(words: str) -> None:
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE t USING fts5(content)")
    query = search.build_fts_query(words)
    if query:
        index.execute("SELECT * FROM t WHERE t MATCH ?", (query,)).fetchall()
    index.close()


async def test_search_has_a_maximum_number_of_words(alice: Someone) -> None:
    await do(alice, "many " * 3000)
    assert len(await found(alice, "many " * MAX_SEARCH_WORDS)) == 1
    for words in ("many " * (MAX_SEARCH_WORDS + 1), "many." * (MAX_SEARCH_WORDS + 1)):
        error = await refused(alice, f"/search {words}")
        assert error.message == f"A search can have at most {MAX_SEARCH_WORDS} words."


@pytest.mark.sqlite
async def test_search_over_the_time_limit_is_refused(
    alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        await do(alice, f"/note penguin {number}")
    monkeypatch.setattr(search, "SEARCH_TIMEOUT_SECONDS", -1.0)
    assert "The search took over" in (await refused(alice, "/search penguin")).message
    monkeypatch.undo()
    assert len(await found(alice, "penguin")) == 20


async def test_unreadable_rows_are_not_found(alice: Someone, bob: Someone, guest: Someone) -> None:
    await do(bob, "/create den")
    await do(bob, "/room private")
    await do(bob, "treasure in the den")
    await do(bob, "/tell alice treasure for two")
    await do(alice, "treasure in the lobby")
    assert await found(guest, "treasure") == ["treasure in the lobby"]
    assert sorted(await found(bob, "treasure")) == [
        "treasure for two", "treasure in the den", "treasure in the lobby",
    ]  # fmt: skip
    assert "treasure for two" in await found(alice, "treasure")


async def test_new_rows_are_found_at_once(alice: Someone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "INDEX_PASS_ROWS", 3)
    for n in range(8):
        await do(alice, f"needle {n}")
        assert len(await found(alice, "needle")) == n + 1
    assert await alice.world.store.read(search.count_unindexed_rows) == 0


async def test_search_of_one_room_finds_nothing_of_others(alice: Someone, bob: Someone) -> None:
    await do(alice, "a lantern in the lobby")
    await do(bob, "/tell alice a lantern for you")
    await do(alice, "/create attic")
    await do(alice, "a lantern in the attic")
    assert await found(alice, "lantern --only attic") == ["a lantern in the attic"]
    assert await found(alice, "lantern --only lobby") == ["a lantern in the lobby"]
    assert len(await found(alice, "lantern")) == 3
    await do(alice, "/room private")
    assert "attic" in (await refused(bob, "/search lantern --only attic")).message


async def test_hint_of_a_private_row_leads_to_the_private_messages(
    alice: Someone, bob: Someone
) -> None:
    for who, line in ((bob, "/tell alice a lantern"), (alice, "/tell bob which lantern")):
        await do(who, line)
        shown = render_plain(draw_result(await do(alice, "/search lantern")))
        assert f"/history @{bob.name} --at " in shown
    await do(alice, "a lantern here")
    assert "/history --at " in render_plain(draw_result(await do(alice, "/search lantern")))
