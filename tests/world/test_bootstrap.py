"""The first tree of a world, after somebody edited the database."""

from __future__ import annotations

from sqlalchemy import text

from sshwarma.world import things
from sshwarma.world.bootstrap import bootstrap_world
from sshwarma.world.world import World


async def test_lobby_that_an_edit_deleted_is_back_at_the_next_start(world: World) -> None:
    query = text("UPDATE things SET deleted_at = 1 WHERE id IN ('lobby', 'rooms')")
    await world.change(lambda tx: tx.conn.execute(query))
    await world.change(lambda tx: bootstrap_world(tx, []))
    found = await world.store.read(lambda conn: things.get_things(conn, ("lobby", "rooms")))
    assert [thing.deleted_at for thing in found.values()] == [None, None]
