"""What tells a world from others."""

from __future__ import annotations

from sqlalchemy import Connection, select

from sshwarma.world.errors import WorldError
from sshwarma.world.schema import things


def read_world_id(conn: Connection) -> str:
    """Return the id of a world: the millisecond in which it was made, in hex.

    A world that was moved, or restored elsewhere, has the same.

    Raises:
        WorldError: if that is no time.
    """
    query = select(things.c.created_at).where(things.c.id == "world")
    at = conn.execute(query).scalar_one()
    try:
        return f"{abs(int(at)):x}"  # a clock before 1970 is possible, and a name has no minus
    except (OverflowError, ValueError) as error:
        raise WorldError(f"things.created_at of 'world' is {at}, and no time.") from error
