"""Earlier values of the keys of a memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from sshwarma.common.limits import MAX_KEPT_VALUE_BYTES, MAX_KEPT_VALUES
from sshwarma.world.schema import memory_versions
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class OldValue:
    """A value that a key had. Times are Unix milliseconds.

    Attributes:
        version: number of the value: the first one that the key had is 1.
        size: its bytes in UTF-8.
        author_id: who set it.
        set_at: when.
        replaced_by: who set another one, or deleted the key.
        replaced_at: when.
        is_deleted: whether the key was deleted, and had no value until it was set again.
    """

    version: int
    size: int
    author_id: str | None
    set_at: int
    replaced_by: str | None
    replaced_at: int
    is_deleted: bool


# Built once: to build them takes longer than to run them, and each value that is set needs them.
_OF_KEY: Final = (
    memory_versions.c.scope_id == bindparam("of_scope"),
    memory_versions.c.key == bindparam("of_key"),
)
_KEPT_SIZES: Final = (
    select(memory_versions.c.version, memory_versions.c.size)
    .where(*_OF_KEY)
    .order_by(memory_versions.c.version.desc())
)
_NEWEST: Final = select(func.max(memory_versions.c.version)).where(*_OF_KEY)
_INSERT: Final = insert(memory_versions)
_DELETE_OLDER: Final = delete(memory_versions).where(
    *_OF_KEY, memory_versions.c.version < bindparam("first")
)


def keep_old_value(tx: Change, value: Thing, *, replaced_by: str, is_deleted: bool = False) -> None:
    """Keep a value that is about to be replaced or deleted; forget the oldest ones."""
    content = value.content or ""
    place = {"of_scope": value.parent_id, "of_key": value.name}
    known = tx.conn.execute(_KEPT_SIZES, place).all()
    version = (known[0].version if known else 0) + 1
    author_id = value.metadata.get("author_id")
    size = len(content.encode())
    tx.conn.execute(
        _INSERT,
        {
            "scope_id": value.parent_id,
            "key": value.name,
            "version": version,
            "content": content,
            "size": size,
            "author_id": author_id if isinstance(author_id, str) else value.created_by,
            "set_at": value.updated_at,
            "replaced_by": replaced_by,
            "replaced_at": tx.now,
            "is_deleted": int(is_deleted),
        },
    )
    total, oldest = size, version
    for kept, old in enumerate(known, 1):
        total += old.size
        if kept >= MAX_KEPT_VALUES or total > MAX_KEPT_VALUE_BYTES:
            tx.conn.execute(_DELETE_OLDER, {**place, "first": oldest})
            break
        oldest = old.version


def read_newest_version(conn: Connection, scope_id: str, key: str) -> int:
    """Return the version of the newest earlier value of a key; 0 if it has none."""
    found = conn.execute(_NEWEST, {"of_scope": scope_id, "of_key": key})
    return found.scalar() or 0


def read_present_version(conn: Connection, value: Thing | None) -> int:
    """Return the version of the present value of a key; 0 if the key is missing."""
    return 0 if value is None else read_newest_version(conn, value.parent_id or "", value.name) + 1


def read_old_values(conn: Connection, scope_id: str, key: str) -> list[OldValue]:
    """Return the earlier values of a key that are kept, the newest first."""
    columns = (column for column in memory_versions.c if column.name in OldValue.__slots__)
    query = select(*columns).where(*_OF_KEY).order_by(memory_versions.c.version.desc())
    found = conn.execute(query, {"of_scope": scope_id, "of_key": key}).mappings()
    return [OldValue(**{**row, "is_deleted": bool(row["is_deleted"])}) for row in found]


def read_old_text(conn: Connection, scope_id: str, key: str, version: int) -> str | None:
    """Return an earlier value of a key; None if it is not kept."""
    query = select(memory_versions.c.content).where(*_OF_KEY, memory_versions.c.version == version)
    return conn.execute(query, {"of_scope": scope_id, "of_key": key}).scalar()
