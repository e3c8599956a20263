"""Lists of what is equipped in rooms with thousands of things."""

from __future__ import annotations

import asyncio
import json

from sshwarma.common.limits import MAX_SHOWN_EQUIPPED
from sshwarma.verbs.views import draw_result
from support.people import Someone, do
from support.queries import equip_texts, listing_queries

FULL = MAX_SHOWN_EQUIPPED + 40


async def test_long_inventory_is_cut_with_the_way_to_the_rest(alice: Someone) -> None:
    """Thousands of lines were drawn for each request, while everybody waited."""
    await do(alice, "/create den")
    await equip_texts(alice, FULL)
    for whose in ("", "room"):
        shown = await do(alice, f"/inv {whose}")
        assert len(shown.equipped) == len(shown.bag) == MAX_SHOWN_EQUIPPED
        assert shown.equipped_count > FULL
        assert shown.bag_count == FULL
        drawn = draw_result(shown).plain()
        assert "… and 40 more. /inv room:prompt:* shows some of them." in drawn
    some = await do(alice, "/inv room:text-33?")
    assert [item.name for item in some.equipped] == [f"text-33{digit}" for digit in range(10)]
    assert [item.name for item in some.bag] == [item.name for item in some.equipped]
    assert "more" not in draw_result(some).plain()


async def test_things_that_are_switched_off_are_counted(alice: Someone) -> None:
    await do(alice, "/create den")
    await equip_texts(alice, FULL)
    await do(alice, "/unequip room text-* --off")
    shown = await do(alice, "/inv room")
    assert (len(shown.switched_off), shown.off_count) == (MAX_SHOWN_EQUIPPED, FULL)
    assert draw_result(shown).plain().count("… and 40 more.") == 2  # and the bag


async def test_inventory_reads_no_texts_of_the_bag_or_of_what_is_off(alice: Someone) -> None:
    await do(alice, "/create den")
    await equip_texts(alice, 3, "secret words")
    await do(alice, "/unequip room sshwarma:say --off")
    await alice.world.loadout(alice.room_id, alice.id)
    with listing_queries() as asked:
        shown = await do(alice, "/inv")
    assert shown.switched_off == ("sshwarma:say",)
    selected = [query.partition(" FROM ")[0] for query in asked if "parent_id = ?" in query]
    assert [query for query in selected if "things.content" in query] == []


async def test_same_questions_at_once_are_one_read(alice: Someone) -> None:
    """Thirty requests of one agent took all threads that read, for seconds."""
    await do(alice, "/create den")
    await equip_texts(alice, 3)
    alice.world.version += 1  # as any change of structure does
    with listing_queries() as asked:
        await do(alice, "/inv room")
        alone = len(asked)
        alice.world.version += 1
        asked.clear()
        shown = await asyncio.gather(*(do(alice, "/inv room") for _ in range(30)))
        together = len(asked)
    assert 0 < together <= alone
    assert len({json.dumps([item.name for item in one.bag]) for one in shown}) == 1


async def test_cancelled_question_does_not_end_that_of_others(alice: Someone) -> None:
    alice.world.version += 1
    first = asyncio.ensure_future(alice.world.loadout(alice.room_id, alice.id))
    second = asyncio.ensure_future(alice.world.loadout(alice.room_id, alice.id))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).tools
