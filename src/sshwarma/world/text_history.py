"""Earlier texts of things: texts, scripts, and values of keys of a memory.

They are known by the place and name of their thing, and outlive it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from sshwarma.common.limits import MAX_KEPT_TEXT_BYTES, MAX_KEPT_TEXTS
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world import things
from sshwarma.world.schema import text_versions
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class OldText:
    """A text that a thing had. Times are Unix milliseconds.

    Attributes:
        version: number of the text: the first one that the thing had is 1.
        size: its bytes in UTF-8.
        author_id: who wrote it.
        set_at: when.
        replaced_by: who wrote another one, or deleted the key of a memory.
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


AUTHOR_KEY: Final = "author_id"
"""The key of a thing's metadata that holds who wrote its present text."""

# Built once: to build them takes longer than to run them, and each value that is set needs them.
_OF_KEY: Final = (
    text_versions.c.scope_id == bindparam("of_scope"),
    text_versions.c.key == bindparam("of_key"),
)
_KEPT_SIZES: Final = (
    select(text_versions.c.version, text_versions.c.size)
    .where(*_OF_KEY)
    .order_by(text_versions.c.version.desc())
)
_NEWEST: Final = select(func.max(text_versions.c.version)).where(*_OF_KEY)
_INSERT: Final = insert(text_versions)
_DELETE_OLDER: Final = delete(text_versions).where(
    *_OF_KEY, text_versions.c.version < bindparam("first")
)


def make_key(thing: Thing) -> str:
    """Return the key of a thing's earlier texts: no text can have that of a tool."""
    return f"tool {thing.name}" if thing.kind == "tool" else thing.name


def change_text(tx: Change, thing: Thing, text: str, *, by: str, **columns: Any) -> Thing:
    """Set the text of a thing with other columns, and keep the text that it had."""
    if (thing.content or "") != replace_nul(text):
        keep_old_text(tx, thing, replaced_by=by)
    columns["metadata"] = {**columns.get("metadata", thing.metadata), AUTHOR_KEY: by}
    return things.update_thing(tx, thing.id, content=text, **columns)


def rename_key(tx: Change, scope_id: str, old: str, new: str) -> None:
    """Give the earlier texts of a thing to its new name, which loses its own."""
    of_scope = text_versions.c.scope_id == scope_id
    tx.conn.execute(delete(text_versions).where(of_scope, text_versions.c.key == new))
    tx.conn.execute(
        update(text_versions).where(of_scope, text_versions.c.key == old).values(key=new)
    )


def keep_old_text(tx: Change, value: Thing, *, replaced_by: str, is_deleted: bool = False) -> None:
    """Keep a text that is about to be replaced or deleted; forget the oldest ones."""
    content, key = replace_nul(value.content or ""), make_key(value)
    place = {"of_scope": value.parent_id, "of_key": key}
    known = tx.conn.execute(_KEPT_SIZES, place).all()
    version = (known[0].version if known else 0) + 1
    author_id = value.metadata.get(AUTHOR_KEY)
    size = len(content.encode())
    tx.conn.execute(
        _INSERT,
        {
            "scope_id": value.parent_id,
            "key": key,
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
        if kept >= MAX_KEPT_TEXTS or total > MAX_KEPT_TEXT_BYTES:
            tx.conn.execute(_DELETE_OLDER, {**place, "first": oldest})
            break
        oldest = old.version


def read_newest_version(conn: Connection, scope_id: str, key: str) -> int:
    """Return the version of the newest earlier text of a key; 0 if it has none."""
    found = conn.execute(_NEWEST, {"of_scope": scope_id, "of_key": key})
    return found.scalar() or 0


def read_present_version(conn: Connection, value: Thing | None) -> int:
    """Return the version of the present text of a thing; 0 if the thing is missing."""
    if value is None:
        return 0
    return read_newest_version(conn, value.parent_id or "", make_key(value)) + 1


def read_old_texts(conn: Connection, scope_id: str, key: str) -> list[OldText]:
    """Return the earlier texts of a key that are kept, the newest first."""
    columns = (column for column in text_versions.c if column.name in OldText.__slots__)
    query = select(*columns).where(*_OF_KEY).order_by(text_versions.c.version.desc())
    found = conn.execute(query, {"of_scope": scope_id, "of_key": key}).mappings()
    return [OldText(**{**row, "is_deleted": bool(row["is_deleted"])}) for row in found]


def read_old_text(conn: Connection, scope_id: str, key: str, version: int) -> str | None:
    """Return an earlier text of a key; None if it is not kept."""
    query = select(text_versions.c.content).where(*_OF_KEY, text_versions.c.version == version)
    return conn.execute(query, {"of_scope": scope_id, "of_key": key}).scalar()
