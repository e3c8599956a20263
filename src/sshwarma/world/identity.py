"""What tells a world from others."""

from __future__ import annotations

from sqlalchemy import Connection, select

from sshwarma.world.schema import things


def read_world_id(conn: Connection) -> str:
    """Return the id of a world: the millisecond in which it was made, in hex.

    A world that was moved, or restored elsewhere, has the same.
    """
    query = select(things.c.created_at).where(things.c.id == "world")
    return f"{abs(int(conn.execute(query).scalar_one())):x}"
