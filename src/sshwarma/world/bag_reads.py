"""Reads of whole bags: their size and texts, and what was deleted from them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from sshwarma.world import things
from sshwarma.world.errors import Conflict
from sshwarma.world.schema import things as things_table
from sshwarma.world.things import Thing


def check_bag_capacity(conn: Connection, bag_id: str, limit: int) -> int:
    """Return how many more things a bag may get, at least 1.

    Raises:
        Conflict: if it has `limit` things.
    """
    query = select(func.count()).where(
        things_table.c.parent_id == bag_id, things_table.c.deleted_at.is_(None)
    )
    left: int = limit - conn.execute(query).scalar_one()
    if left <= 0:
        raise Conflict(f"A bag can have at most {limit} things.")
    return left


def find_last_deleted(conn: Connection, parent_ids: Sequence[str], name: str) -> Thing | None:
    """Return the latest deleted thing with that name in one of those bags."""
    query = (
        select(things_table)
        .where(
            things_table.c.parent_id.in_(parent_ids),
            things_table.c.name == name,
            things_table.c.deleted_at.is_not(None),
        )
        .order_by(things_table.c.deleted_at.desc())
        .limit(1)
    )
    row = conn.execute(query).mappings().first()
    return things.thing_from_row(row) if row else None


def read_texts(
    conn: Connection, parent_id: str, *, limit: int, max_characters: int
) -> tuple[list[Thing], int]:
    """Return a bag's data and references by name, and the number that did not fit.

    The texts of those returned have at most `max_characters` together. No other text is read.
    """
    condition = (
        things_table.c.parent_id == parent_id,
        things_table.c.kind.in_(("data", "reference")),
        things_table.c.deleted_at.is_(None),
    )
    count = int(conn.execute(select(func.count()).where(*condition)).scalar_one())
    lengths = select(
        things_table.c.id, func.coalesce(func.length(things_table.c.content), 0)
    ).where(*condition)
    ids: list[str] = []
    total = 0
    for thing_id, length in conn.execute(lengths.order_by(things_table.c.name).limit(limit)):
        total += length
        if total > max_characters:
            break
        ids.append(thing_id)
    found = things.get_things(conn, ids)
    return [found[thing_id] for thing_id in ids], count - len(ids)


def read_deleted_names(conn: Connection, parent_ids: Sequence[str], limit: int) -> list[str]:
    """Return the names of the things deleted last from some bags, without repetition."""
    query = (
        select(things_table.c.name)
        .where(things_table.c.parent_id.in_(parent_ids), things_table.c.deleted_at.is_not(None))
        .order_by(things_table.c.deleted_at.desc())
        .limit(limit)
    )
    return list(dict.fromkeys(conn.execute(query).scalars()))
