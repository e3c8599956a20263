"""What the tools of a copied room ask of the database; all changes wait."""

from __future__ import annotations

from sshwarma.world import equipment
from support.people import Someone, do
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
