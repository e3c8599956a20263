"""Memory: texts by key, of a project or of a room.

A value is a data thing in the container of its scope: the project, or the container `memory` of a
room. Values are plain text and come back as they went; nothing reads JSON in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, func, select

from sshwarma.common.limits import (
    MAX_MEMORY_KEY_CHARACTERS,
    MAX_MEMORY_KEYS,
    MAX_SHOWN_MEMORY_KEYS,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.world import text_history, things
from sshwarma.world.errors import Conflict, Invalid, empty_error, too_long_error
from sshwarma.world.events import MemoryChanged
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.stored_json import read_object_or_none
from sshwarma.world.stubs import STUB_PREFIX
from sshwarma.world.text_history import AUTHOR_KEY
from sshwarma.world.things import Thing

SESSION_CONTAINER: Final = "memory"
"""The name of the container of a room's memory."""

_ROLE: Final = {"role": "memory"}
_LAST: Final = "\U0010ffff"
"""Follows every printable character in the order of keys."""


WriteOutcome: TypeAlias = Literal["new", "changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key, the bytes of its value, who set it last, and when, in Unix milliseconds."""

    key: str
    size: int
    author_id: str | None
    set_at: int


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Keys of a scope in their order, and how many there are in all.

    `entries` describe the first of the keys.
    """

    keys: tuple[str, ...]
    entries: tuple[KeyEntry, ...]
    total: int


def check_key(key: str, name: str = "key") -> str:
    """Return a key if it can be one. Upper and lower case differ.

    Raises:
        Invalid: with the reason; `name` is the argument.
    """
    if not key:
        raise empty_error(name)
    if len(key) > MAX_MEMORY_KEY_CHARACTERS:
        raise too_long_error(name, len(key), MAX_MEMORY_KEY_CHARACTERS)
    for place, character in enumerate(key, 1):
        if not character.isprintable():
            code = f"U+{ord(character):04X}"
            raise Invalid(f"{name}: its character {place} is not printable ({code}).")
    return key


def check_not_stub(key: str, name: str = "key") -> None:
    """Raise Invalid if a key has the form of those that name rows of the log.

    A model reads the rest of a result by such a key, so nobody else may say what it holds.
    """
    if key.startswith(STUB_PREFIX):
        raise Invalid(
            f"{name}: {shorten_name(key)} cannot be changed: keys that begin with {STUB_PREFIX}"
            " name rows of the log.",
            hint="Choose another key.",
        )


def find_session_container(conn: Connection, room_id: str) -> Thing | None:
    """Return the container of a room's memory, if anything was stored in it."""
    return things.find_child(conn, room_id, SESSION_CONTAINER, "container")


def get_or_create_session_container(tx: Change, room_id: str) -> Thing:
    """Return the container of a room's memory; create it if it is missing."""
    found = find_session_container(tx.conn, room_id)
    return found or things.create_thing(
        tx, room_id, "container", SESSION_CONTAINER, structural=False
    )


def find_value(conn: Connection, scope_id: str | None, key: str) -> Thing | None:
    """Return the thing that holds the value of a key; None if it is missing."""
    return None if scope_id is None else things.find_child(conn, scope_id, key, "data")


def list_keys(
    conn: Connection,
    scope_id: str | None,
    *,
    prefix: str = "",
    limit: int | None = None,
    offset: int = 0,
    described: int | None = MAX_SHOWN_MEMORY_KEYS,
) -> KeyPage:
    """Return the keys that begin with a prefix, in the order of their characters.

    `total` counts all of them, whatever the limit and the offset. Entries describe the first
    `described` of those returned, or all if it is None: to describe one takes as long as to read
    ten.
    """
    if scope_id is None:
        return KeyPage((), (), 0)
    condition = [
        things_table.c.parent_id == scope_id,
        things_table.c.kind == "data",
        things_table.c.deleted_at.is_(None),
    ]
    if prefix:  # a range, in which no sign has a meaning of its own
        condition += [things_table.c.name >= prefix, things_table.c.name <= prefix + _LAST]
    total = conn.execute(select(func.count()).where(*condition)).scalar_one()
    columns = (things_table.c[name] for name in ("name", "metadata", "created_by", "updated_at"))
    query = select(*columns).where(*condition).order_by(things_table.c.name)
    page = query.limit(limit).offset(offset)
    found = conn.execute(page).all()
    keys = tuple(row.name for row in found)
    return KeyPage(keys, tuple(_entry_of(row) for row in found[:described]), total)


def _entry_of(row: Any) -> KeyEntry:
    metadata = read_object_or_none(row.metadata) or {}
    size, author_id = metadata.get("size"), metadata.get(AUTHOR_KEY)
    return KeyEntry(
        row.name,
        size if isinstance(size, int) else 0,
        author_id if isinstance(author_id, str) else row.created_by,
        row.updated_at,
    )


def write_value(
    tx: Change, scope_id: str, key: str, value: str, *, author_id: str, room_id: str | None = None
) -> WriteOutcome:
    """Set the value of a key; return what that was for the key.

    What it had before goes to the history of the key. `room_id` is for the memory of a room.

    Raises:
        Conflict: if the scope has too many keys.
        Invalid: if a key of a room's memory would look like a row of its log.
    """
    if room_id is not None:
        check_not_stub(key)
    known = find_value(tx.conn, scope_id, key)
    if known is None:
        if list_keys(tx.conn, scope_id, limit=0).total >= MAX_MEMORY_KEYS:
            raise Conflict(
                f"There can be at most {MAX_MEMORY_KEYS} keys.", hint="Delete some of them first."
            )
        things.create_thing(
            tx,
            scope_id,
            "data",
            key,
            content=value,
            metadata=_describe_value(value, author_id),
            created_by=author_id,
            structural=False,
        )
    elif known.content == value:
        return "unchanged"
    else:
        text_history.keep_old_text(tx, known, replaced_by=author_id)
        things.replace_text(tx, known, value, _describe_value(value, author_id))
    tx.publish_on_commit(MemoryChanged(scope_id, room_id, key, "set", author_id))
    return "new" if known is None else "changed"


def delete_value(
    tx: Change, scope_id: str | None, key: str, *, author_id: str, room_id: str | None = None
) -> bool:
    """Delete a key; return whether it was there. Its history stays.

    Raises:
        Invalid: if a key of a room's memory names a row of its log.
    """
    if room_id is not None:
        check_not_stub(key)
    known = find_value(tx.conn, scope_id, key)
    if known is None or scope_id is None:
        return False
    text_history.keep_old_text(tx, known, replaced_by=author_id, is_deleted=True)
    things.delete_thing(tx, known, structural=False)
    tx.publish_on_commit(MemoryChanged(scope_id, room_id, key, "deleted", author_id))
    return True


def get_author_id(value: Thing) -> str | None:
    """Return the id of the agent that set a value last."""
    author_id = value.metadata.get(AUTHOR_KEY)
    return author_id if isinstance(author_id, str) else value.created_by


def _describe_value(value: str, author_id: str) -> dict[str, Any]:
    return {**_ROLE, "author_id": author_id, "size": len(value.encode())}
