"""What a copy of a room asks of the database; all other changes wait for it."""

from __future__ import annotations

import pytest

from sshwarma.world import exits, rows, sent_results, turns
from sshwarma.world.store import Change
from support.people import Someone, do
from support.queries import equip_texts, listing_queries


@pytest.mark.parametrize("verb", ["fork", "clone"])
async def test_copy_of_a_room_with_more_texts_takes_as_few_queries(
    alice: Someone, verb: str
) -> None:
    """It read all that is equipped, and all its rows, for each text."""
    await do(alice, "/create den")
    den = alice.room_id
    await equip_texts(alice, 2)
    await do(alice, "/portal a lobby")
    with listing_queries() as asked:
        await do(alice, f"/{verb} den copy-1")
        few = len(asked)
        alice.world.presence.move(alice.connection, den)
        await equip_texts(alice, 40, name="more")
        for direction in "bcdefgh":
            await do(alice, f"/portal {direction} lobby")
        asked.clear()
        await do(alice, f"/{verb} den copy-2")
        many = len(asked)
    assert 0 < many <= few
    load = await alice.world.loadout(alice.room_id, None)
    assert {item.thing.parent_id for item in load.data} == {alice.room_id}
    assert len(load.data) == 42
    ways = await alice.world.store.read(lambda conn: exits.read_exits(conn, alice.room_id))
    assert len(ways) == 8
    assert ways == await alice.world.store.read(lambda conn: exits.read_exits(conn, den))


@pytest.mark.units_once("it counts queries, and a first run reads the last numbers of rows again")
async def test_clone_of_a_longer_log_takes_as_few_queries(alice: Someone) -> None:
    await do(alice, "/create den")
    counts = []
    for number in range(2):
        with listing_queries() as asked:
            await do(alice, f"/clone den copy-{number}")
            counts.append(len(asked))
        await do(alice, "/join den")
        for line in range(20):
            await do(alice, f"line {line}")
    assert 0 < counts[1] <= counts[0]


async def test_text_that_was_dropped_does_not_stand_for_its_successor(alice: Someone) -> None:
    await do(alice, "/create den")
    for text in ("old", "new"):
        await do(alice, f"/put prompt:style = {text}")
        await do(alice, "/equip room prompt:style")
        if text == "old":
            await do(alice, "/drop room prompt:style")
    await do(alice, "/link site https://example.org/")
    await do(alice, "/equip room site")
    await do(alice, "/fork den annex")
    load = await alice.world.loadout(alice.room_id, None)
    assert {(item.thing.name, item.thing.content, item.thing.uri) for item in load.data} == {
        ("prompt:style", "new", None),
        ("site", None, "https://example.org/"),
    }


async def test_equipping_more_things_takes_as_few_queries(alice: Someone) -> None:
    """Each thing was a statement of its own."""
    await do(alice, "/create den")
    counts = []
    for name, count in (("a", 2), ("b", 40)):
        await equip_texts(alice, count, name=name)
        with listing_queries() as asked:
            await do(alice, f"/unequip room {name}*")
            await do(alice, f"/equip room {name}*")
            counts.append(len(asked))
    assert 0 < counts[1] <= counts[0]


async def test_clone_keeps_as_much_of_results_as_turns_were_sent(alice: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "a line")
    world, den = alice.world, alice.room_id

    def answer(tx: Change) -> int:
        turn = turns.open_turn(tx, den, alice.id, alice.id)
        row = rows.append_row(tx, den, "chat", "x", author_id=alice.id, turn_id=turn.id)
        sent_results.record_sent_characters(tx, turn.id, {row.seq: 7, 999: 8})
        return row.seq

    seq = await world.change(answer)
    await do(alice, "/clone den copy")
    (turn,) = await world.store.read(lambda conn: turns.read_path(conn, alice.room_id))
    ((number, characters),) = turn.sent_characters.items()
    row = await world.store.read(lambda conn: rows.read_numbered(conn, alice.room_id, number))
    assert (row.content, characters, number != seq) == ("x", 7, True)


async def test_clone_has_the_session_memory_of_its_room(alice: Someone) -> None:
    await do(alice, "/create den")
    await do(alice, "/mem session set draft = one")
    await do(alice, "/clone den copy")
    assert (await do(alice, "/mem session get draft")).value == "one"
    await do(alice, "/mem session set draft = two")
    await do(alice, "/join den")
    assert (await do(alice, "/mem session get draft")).value == "one"
    await do(alice, "/fork den annex")
    assert (await do(alice, "/mem session list")).keys == ()
