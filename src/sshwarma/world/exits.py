"""Exits between rooms, and the shortest route along them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, insert, literal, select, update

from sshwarma.world.errors import NotFound
from sshwarma.world.events import WorldChanged
from sshwarma.world.schema import exits, things
from sshwarma.world.store import Change


@dataclass(frozen=True, slots=True)
class Exit:
    """A one-way passage. `to_name` is the name of the room it leads to."""

    direction: str
    to_id: str
    to_name: str


def read_exits(conn: Connection, room_id: str) -> tuple[Exit, ...]:
    """Return live exits to live rooms, by direction."""
    query = (
        select(exits.c.direction, things.c.id, things.c.name)
        .join(things, things.c.id == exits.c.to_room_id)
        .where(
            exits.c.from_room_id == room_id,
            exits.c.deleted_at.is_(None),
            things.c.deleted_at.is_(None),
        )
        .order_by(exits.c.direction)
    )
    return tuple(Exit(*row) for row in conn.execute(query))


def open_exit(
    tx: Change, from_id: str, direction: str, to_id: str, created_by: str | None
) -> Exit | None:
    """Create an exit. Returns the live one it replaced, if that led elsewhere."""
    old_exit = {way.direction: way for way in read_exits(tx.conn, from_id)}.get(direction)
    key = (exits.c.from_room_id == from_id, exits.c.direction == direction)
    values = {
        "to_room_id": to_id,
        "created_by": created_by,
        "created_at": tx.now,
        "deleted_at": None,
    }
    if tx.conn.execute(update(exits).where(*key).values(**values)).rowcount == 0:
        tx.conn.execute(insert(exits).values(from_room_id=from_id, direction=direction, **values))
    tx.publish_on_commit(WorldChanged(from_id))
    return old_exit if old_exit is not None and old_exit.to_id != to_id else None


def copy_exits(tx: Change, from_id: str, to_id: str, created_by: str | None) -> None:
    """Copy the exits of a room to a new one, those to live rooms, in one statement."""
    query = (
        select(
            literal(to_id),
            exits.c.direction,
            exits.c.to_room_id,
            literal(created_by),
            literal(tx.now),
        )
        .join(things, things.c.id == exits.c.to_room_id)
        .where(
            exits.c.from_room_id == from_id,
            exits.c.deleted_at.is_(None),
            things.c.deleted_at.is_(None),
        )
    )
    columns = ["from_room_id", "direction", "to_room_id", "created_by", "created_at"]
    tx.conn.execute(insert(exits).from_select(columns, query, include_defaults=False))
    tx.publish_on_commit(WorldChanged(to_id))


def close_exit(tx: Change, from_id: str, direction: str) -> Exit:
    """Remove an exit and return it.

    Raises:
        NotFound: if there is no exit in that direction.
    """
    old_exit = {way.direction: way for way in read_exits(tx.conn, from_id)}.get(direction)
    if old_exit is None:
        raise NotFound(f"Unknown exit {direction}.")
    tx.conn.execute(
        update(exits)
        .where(exits.c.from_room_id == from_id, exits.c.direction == direction)
        .values(deleted_at=tx.now)
    )
    tx.publish_on_commit(WorldChanged(from_id))
    return old_exit


def find_route(
    from_id: str, to_id: str, ways_from: Callable[[str], Iterable[Exit]]
) -> list[Exit] | None:
    """Return a shortest route as the exits to take, or None if there is no route.

    Cycles are harmless: each room is entered once.
    """
    predecessors: dict[str, tuple[str, Exit] | None] = {from_id: None}
    frontier = deque([from_id])
    while frontier and to_id not in predecessors:
        room_id = frontier.popleft()
        for way in ways_from(room_id):
            if way.to_id not in predecessors:
                predecessors[way.to_id] = (room_id, way)
                frontier.append(way.to_id)
    if to_id not in predecessors:
        return None
    route: list[Exit] = []
    step = predecessors[to_id]
    while step is not None:
        previous, way = step
        route.append(way)
        step = predecessors[previous]
    return route[::-1]


def read_all_exits(conn: Connection) -> dict[str, list[Exit]]:
    """Every live exit, by the room it leaves."""
    query = (
        select(exits.c.from_room_id, exits.c.direction, things.c.id, things.c.name)
        .join(things, things.c.id == exits.c.to_room_id)
        .where(exits.c.deleted_at.is_(None), things.c.deleted_at.is_(None))
        .order_by(exits.c.direction)
    )
    exits_by_room: dict[str, list[Exit]] = {}
    for from_id, *fields in conn.execute(query):
        exits_by_room.setdefault(from_id, []).append(Exit(*fields))
    return exits_by_room
