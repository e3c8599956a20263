"""Moves between rooms: a forced move is announced, audited, and made once."""

from __future__ import annotations

from sqlalchemy import text

from sshwarma.world import movement, rooms
from support.people import Someone


async def test_forced_move_is_announced_and_audited(alice: Someone, bob: Someone) -> None:
    world = alice.world
    den = await world.change(lambda tx: rooms.create_room(tx, "den", alice.caller.agent))
    world.presence.move(bob.connection, den.id)
    await movement.move_out_of_room(bob.caller)
    await movement.move_out_of_room(bob.caller)  # it is in the lobby already
    assert bob.connection.room_id == "lobby"
    query = text("SELECT agent_id, room_id, door, verb, what FROM audit ORDER BY n")
    stored = await world.store.read(lambda conn: [tuple(row) for row in conn.execute(query)])
    assert stored == [(bob.id, den.id, "ssh", "move out", "to lobby")]
    assert [row.content for row in await world.last_rows(den.id, 1)] == ["leaves"]
    assert [row.content for row in await world.last_rows("lobby", 1)] == ["arrives"]
