"""What the tools of a copied room ask of the database; all changes wait."""

from __future__ import annotations

import sqlite3

import pytest

from sshwarma.tools.names import claim_tool_name
from sshwarma.world import equipment, things
from sshwarma.world.store import Change
from support.people import Someone, do, refused
from support.queries import equip_texts, listing_queries


async def test_tools_of_a_copy_do_not_read_what_else_is_equipped(alice: Someone, den: str) -> None:
    """The rows of thousands of texts were read for each tool."""
    for number in range(3):
        await do(alice, f"/tool new dice-{number} = return {number}")
    await do(alice, "/equip room den:dice-1 --priority 3")
    await do(alice, "/unequip room den:dice-2 --off")
    await equip_texts(alice, 3)
    with listing_queries() as asked:
        await do(alice, "/fork den annex")
    in_change = asked[: next(n for n, query in enumerate(asked) if "INSERT INTO audit" in query)]
    reads = [query for query in in_change if "FROM equipped" in query]
    assert [query for query in reads if "thing_id IN" not in query and query[:6] == "SELECT"] == []
    room_id = alice.room_id
    rows = await alice.world.store.read(lambda conn: equipment.read_equipped_rows(conn, [room_id]))
    states = {row.thing.label: (row.priority, row.equipped) for row in rows}
    assert states["annex:dice-1"] == (3.0, True)
    assert states["annex:dice-2"] == (0.0, False)
    assert not any(name.startswith("den:") for name in states)


async def test_tools_of_a_copied_room_are_counted(alice: Someone, den: str) -> None:
    alice.limits = alice.limits.model_copy(update={"text_mib_per_hour": 1})
    await do(alice, "/tool new dice = return 1 -- " + "x" * 300_000)
    await do(alice, "/fork den copy-1")
    await do(alice, "/fork den copy-2")
    why = await refused(alice, "/fork den copy-3")
    assert "at most 1 MiB of text in an hour" in why.message


@pytest.mark.sqlite
async def test_new_tool_is_not_compared_with_all_others(alice: Someone, den: str) -> None:
    """A fork of a room with 100 tools took seconds in a world of many such forks."""
    room = await alice.world.store.read(lambda conn: things.get_live_thing(conn, alice.room_id))

    def count_steps(tx: Change) -> int:
        """Count what SQLite does to claim a name, in instructions of its machine."""
        steps: list[int] = []
        driver = tx.conn.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        claim_tool_name(tx, "den:first")  # prepares the statements
        driver.set_progress_handler(lambda: steps.append(1), 1)
        claim_tool_name(tx, "den:new")
        driver.set_progress_handler(None, 0)
        return len(steps)

    def make_tools(tx: Change) -> None:
        for number in range(100):
            name = f"tool-{number}"
            things.create_thing(tx, room.id, "tool", name, qualified_name=f"den:{name}")

    few = await alice.world.change(count_steps)
    await alice.world.change(make_tools)
    many = await alice.world.change(count_steps)
    assert 0 < many <= few + 10


async def test_names_of_moved_and_renamed_tools_are_claimed(alice: Someone, den: str) -> None:
    await do(alice, "/namespace new a__b")
    await do(alice, "/tool new a__b:c = return 1")
    assert "would both be shown as" in (await refused(alice, "/tool new a:b__c = return 2")).message
    await do(alice, "/namespace new scm")
    await do(alice, "/namespace set a__b parent scm")
    await do(alice, "/tool new a:b__c = return 2")
    assert "scm.a__b:c" in (await refused(alice, "/tool new scm_a:b__c = return 3")).message
