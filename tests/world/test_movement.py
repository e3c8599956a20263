"""Moves between rooms: a forced move is announced, audited, and made once."""

from __future__ import annotations

from dataclasses import replace

from sshwarma.world import movement, rooms
from sshwarma.world.audit import AuditFilter, Origin, read_audit
from support.people import Someone


async def test_forced_move_is_announced_and_audited(alice: Someone, bob: Someone) -> None:
    world = alice.world
    den = await world.change(lambda tx: rooms.create_room(tx, "den", alice.caller.agent))
    world.presence.move(bob.connection, den.id)
    caller = replace(bob.caller, origin=Origin("192.0.2.1", "SHA256:b"))
    await movement.move_out_of_room(caller)
    await movement.move_out_of_room(caller)  # it is in the lobby already
    assert bob.connection.room_id == "lobby"
    [entry] = await world.store.read(lambda conn: read_audit(conn, AuditFilter(), 10))
    assert (entry.agent_id, entry.room_id, entry.door) == (bob.id, den.id, "ssh")
    assert (entry.verb, entry.request) == ("move out", "to lobby")
    assert entry.origin == caller.origin
    assert [row.content for row in await world.last_rows(den.id, 1)] == ["leaves"]
    assert [row.content for row in await world.last_rows("lobby", 1)] == ["arrives"]
