"""Reading a room's log in tests."""

from sqlalchemy import Connection, select

from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.schema import rows


def read_rows_after(conn: Connection, room_id: str, seq: int, limit: int) -> list[Row]:
    """Return up to `limit` rows that follow `seq`, oldest first."""
    query = select(rows).where(rows.c.room_id == room_id, rows.c.seq > seq)
    found = conn.execute(query.order_by(rows.c.seq).limit(limit)).mappings()
    return [row_from_mapping(row) for row in found]
