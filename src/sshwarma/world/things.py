"""The tree of things: reads, and the changes that keep it a tree."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, get_args

from sqlalchemy import (
    Connection,
    Integer,
    RowMapping,
    Select,
    bindparam,
    null,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.events import WorldChanged
from sshwarma.world.ids import new_id
from sshwarma.world.portable_sql import insert_new
from sshwarma.world.schema import things
from sshwarma.world.store import Change
from sshwarma.world.stored_json import dump_metadata, read_object_or_none
from sshwarma.world.tool_names import make_stored_names

ThingKind = Literal["container", "room", "agent", "mcp", "toolset", "tool", "data", "reference"]
THING_KINDS: Final[tuple[ThingKind, ...]] = get_args(ThingKind)

KIND_NOUNS: Final = {
    "container": "a built-in namespace", "room": "a room", "agent": "an agent",
    "mcp": "an MCP server", "toolset": "a namespace", "tool": "a tool", "data": "data",
    "reference": "a reference", "person": "a person", "model": "a model",
}  # fmt: skip
"""Names of the kinds of things and of agents, with the article."""


def describe_kind(kind: str) -> str:
    """Name a kind of things or agents for people, with its article: "an MCP server"."""
    return KIND_NOUNS.get(kind, f"a {kind}")


@dataclass(frozen=True, slots=True)
class Thing:
    """A row of the world tree.

    `metadata` is the row's JSON; times are Unix milliseconds. It is empty if it cannot be read,
    and then `is_readable` is false: such a thing is not enabled.
    """

    id: str
    parent_id: str | None
    kind: ThingKind
    name: str
    qualified_name: str | None = None
    description: str = ""
    content: str | None = None
    uri: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    available: bool = True
    enabled: bool = True
    auto_load: bool = False
    created_by: str | None = None
    created_at: int = 0
    updated_at: int = 0
    deleted_at: int | None = None
    is_readable: bool = True

    @property
    def label(self) -> str:
        """The name to show: the qualified name, if it has one."""
        return self.qualified_name or self.name


def thing_from_row(row: RowMapping) -> Thing:
    """Return the thing of a database row."""
    metadata = read_object_or_none(row["metadata"])
    return Thing(
        id=row["id"],
        parent_id=row["parent_id"],
        kind=row["kind"],
        name=row["name"],
        qualified_name=row["qualified_name"],
        description=row["description"] or "",
        content=row["content"],
        uri=row["uri"],
        metadata=metadata or {},
        available=bool(row["available"]),
        enabled=bool(row["enabled"]) and metadata is not None,
        auto_load=bool(row["auto_load"]),
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=row["deleted_at"],
        is_readable=metadata is not None,
    )


# The queries that a loadout repeats most are built once: to build one takes longer than to run it.
_BY_ID: Final = select(things).where(things.c.id == bindparam("thing_id"))
_BY_QUALIFIED_NAME: Final = select(things).where(
    things.c.qualified_name == bindparam("name"), things.c.deleted_at.is_(None)
)


# After an error, PostgreSQL refuses what else a unit does, also if it goes on without the thing.
# So a name that is taken is no error of an INSERT, and is looked for before an UPDATE.
_INSERT: Final = insert_new(things)
_PLACE_COLUMNS: Final = ("parent_id", "kind", "name", "qualified_name")


def get_thing(conn: Connection, thing_id: str) -> Thing | None:
    """Return the thing with that id, deleted or not."""
    row = conn.execute(_BY_ID, {"thing_id": thing_id}).mappings().first()
    return thing_from_row(row) if row else None


def get_things(conn: Connection, thing_ids: Collection[str]) -> dict[str, Thing]:
    """The things with these ids, deleted or not, by id."""
    rows = conn.execute(select(things).where(things.c.id.in_(thing_ids))).mappings()
    return {row["id"]: thing_from_row(row) for row in rows}


def get_live_thing(conn: Connection, thing_id: str) -> Thing:
    """Return the live thing with that id.

    Raises:
        NotFound: if it does not exist, or was deleted.
    """
    thing = get_thing(conn, thing_id)
    if thing is None or thing.deleted_at is not None:
        raise NotFound("That thing was deleted.")
    return thing


def find_by_qualified_name(conn: Connection, qualified_name: str) -> Thing | None:
    """Return the live thing with that qualified name, or None."""
    row = conn.execute(_BY_QUALIFIED_NAME, {"name": qualified_name}).mappings().first()
    return thing_from_row(row) if row else None


def read_children(
    conn: Connection, parent_id: str, *kinds: str, limit: int | None = None, texts: bool = True
) -> list[Thing]:
    """Return live children, by name; only of some kinds, if any are given.

    Without `texts` their contents are not read, and are None.
    """
    query = _children_query(kinds, has_limit=limit is not None, has_texts=texts)
    found = conn.execute(query, {"parent_id": parent_id, "at_most": limit}).mappings()
    return [thing_from_row(row) for row in found]


@lru_cache(maxsize=64)
def _children_query(kinds: tuple[str, ...], *, has_limit: bool, has_texts: bool) -> Select[Any]:
    others = (column for column in things.c if column is not things.c.content)
    selected = select(things) if has_texts else select(*others, null().label("content"))
    query = selected.where(
        things.c.parent_id == bindparam("parent_id"), things.c.deleted_at.is_(None)
    )
    if kinds:
        query = query.where(things.c.kind.in_(kinds))
    query = query.order_by(things.c.name, things.c.kind)
    return query.limit(bindparam("at_most", type_=Integer)) if has_limit else query


def find_child(conn: Connection, parent_id: str, name: str, *kinds: str) -> Thing | None:
    """Return the live child with that name; data first if several kinds share it."""
    found = conn.execute(_child_query(kinds), {"bag_id": parent_id, "child": name}).mappings()
    children = [thing_from_row(row) for row in found]
    return min(children, key=lambda thing: thing.kind != "data", default=None)


@lru_cache(maxsize=64)
def _child_query(kinds: tuple[str, ...]) -> Select[Any]:
    query = select(things).where(
        things.c.parent_id == bindparam("bag_id"),
        things.c.name == bindparam("child"),
        things.c.deleted_at.is_(None),
    )
    return query.where(things.c.kind.in_(kinds)) if kinds else query


def read_ancestors(conn: Connection, thing_id: str) -> list[Thing]:
    """Return the ancestors of a thing, from its parent up to the root."""
    ancestors: dict[str, Thing] = {}
    thing = get_thing(conn, thing_id)
    while thing is not None and thing.parent_id is not None and thing.parent_id not in ancestors:
        thing = get_thing(conn, thing.parent_id)
        if thing is not None:
            ancestors[thing.id] = thing
    return list(ancestors.values())


def create_thing(  # noqa: PLR0913 - one keyword for each column
    tx: Change,
    parent_id: str,
    kind: ThingKind,
    name: str,
    *,
    id: str | None = None,
    qualified_name: str | None = None,
    description: str = "",
    content: str | None = None,
    uri: str | None = None,
    metadata: dict[str, Any] | None = None,
    auto_load: bool = False,
    created_by: str | None = None,
    structural: bool = True,
) -> Thing:
    """Create a thing. A NUL in its content or description becomes visible.

    One that affects no room, loadout or list is not `structural`: their caches stay valid.

    Raises:
        Conflict: if a live thing has that kind and name there, or the qualified name is taken.
        NotFound: if its parent does not exist.
    """
    description = replace_nul(description)
    content = None if content is None else replace_nul(content)
    thing = Thing(
        id=id or new_id(),
        parent_id=parent_id,
        kind=kind,
        name=name,
        qualified_name=qualified_name,
        description=description,
        content=content,
        uri=uri,
        metadata=metadata or {},
        auto_load=auto_load,
        created_by=created_by,
        created_at=tx.now,
        updated_at=tx.now,
    )
    try:
        inserted = tx.conn.execute(_INSERT, _make_values(thing))
    except IntegrityError as error:
        raise NotFound("The place of that thing was deleted.") from error
    if not inserted.rowcount:
        raise _name_conflict(tx.conn, thing)
    if structural:
        tx.publish_on_commit(WorldChanged(parent_id))
    return thing


def _make_values(thing: Thing) -> dict[str, Any]:
    """Return the columns of a new thing."""
    return {
        "id": thing.id,
        "parent_id": thing.parent_id,
        "kind": thing.kind,
        "name": thing.name,
        "qualified_name": thing.qualified_name,
        **make_stored_names(thing.kind, thing.qualified_name),
        "description": thing.description or None,
        "content": thing.content,
        "uri": thing.uri,
        "metadata": dump_metadata(thing.metadata),
        "auto_load": int(thing.auto_load),
        "created_by": thing.created_by,
        "created_at": thing.created_at,
        "updated_at": thing.updated_at,
    }


def update_thing(tx: Change, thing_id: str, *, structural: bool = True, **columns: Any) -> Thing:
    """Set columns of a live thing (`metadata` as a dict) and return it as it is now.

    A change that does not affect rooms, loadouts or lists is not `structural`: their caches stay
    valid.

    Raises:
        NotFound: if it was deleted.
        Conflict: if its new name, place or qualified name is taken.
    """
    old_thing = get_live_thing(tx.conn, thing_id)
    if "metadata" in columns:
        columns["metadata"] = dump_metadata(columns["metadata"])
    for name in ("content", "description"):
        if isinstance(columns.get(name), str):
            columns[name] = replace_nul(columns[name])
    if "qualified_name" in columns:
        columns |= make_stored_names(old_thing.kind, columns["qualified_name"])
    if _has_namesake(tx.conn, old_thing, **columns):
        raise Conflict(f"A {old_thing.kind} with that name already exists there.")
    tx.conn.execute(
        update(things).where(things.c.id == thing_id).values(updated_at=tx.now, **columns)
    )
    if structural:
        # A change of a room concerns that room; of anything else, its parent.
        tx.publish_on_commit(
            WorldChanged(thing_id if old_thing.kind == "room" else old_thing.parent_id)
        )
    return get_live_thing(tx.conn, thing_id)


_REPLACE_TEXT: Final = (
    update(things)
    .where(things.c.id == bindparam("thing_id"))
    .values({name: bindparam(f"new_{name}") for name in ("content", "metadata", "updated_at")})
)


def replace_text(tx: Change, thing: Thing, content: str, metadata: dict[str, Any]) -> None:
    """Replace the content and the metadata of a live thing that no cache has.

    For texts that change often: it takes a third of the time of `update_thing`.
    """
    values = {
        "thing_id": thing.id,
        "new_content": replace_nul(content),
        "new_metadata": dump_metadata(metadata),
        "new_updated_at": tx.now,
    }
    tx.conn.execute(_REPLACE_TEXT, values)


def set_metadata(tx: Change, thing_id: str, *, structural: bool = True, **values: Any) -> Thing:
    """Set keys of a thing's metadata; None removes one."""
    merged = get_live_thing(tx.conn, thing_id).metadata | values
    metadata = {key: value for key, value in merged.items() if value is not None}
    return update_thing(tx, thing_id, structural=structural, metadata=metadata)


def delete_thing(tx: Change, thing: Thing, *, structural: bool = True) -> None:
    """Soft-delete a thing. Its contents become unreachable, and return with it.

    `structural` is as for `update_thing`.
    """
    tx.conn.execute(
        update(things).where(things.c.id == thing.id).values(deleted_at=tx.now, updated_at=tx.now)
    )
    if structural:
        tx.publish_on_commit(WorldChanged(thing.parent_id))


def restore_thing(tx: Change, thing: Thing) -> Thing:
    """Restore a soft-deleted thing to its place.

    Raises:
        Conflict: if its name was taken in the meantime.
        NotFound: if its parent was deleted.
    """
    if thing.parent_id is not None:
        get_live_thing(tx.conn, thing.parent_id)
    if _has_namesake(tx.conn, thing):
        raise _name_conflict(tx.conn, thing)
    tx.conn.execute(
        update(things).where(things.c.id == thing.id).values(deleted_at=None, updated_at=tx.now)
    )
    tx.publish_on_commit(WorldChanged(thing.parent_id))
    return get_live_thing(tx.conn, thing.id)


def move_thing(tx: Change, thing_id: str, to_id: str) -> Thing:
    """Move a thing into another bag.

    Raises:
        Invalid: if the bag is the thing itself or inside it.
        Conflict: if the bag has a live thing of that kind and name.
        NotFound: if either was deleted.
    """
    target = get_live_thing(tx.conn, to_id)
    if to_id == thing_id or any(
        ancestor.id == thing_id for ancestor in read_ancestors(tx.conn, to_id)
    ):
        raise Invalid(
            f"A thing cannot contain itself: {target.label} is the thing or lies inside it."
        )
    return update_thing(tx, thing_id, parent_id=to_id)


def _has_namesake(conn: Connection, thing: Thing, **columns: Any) -> bool:
    """Return whether a thing would have the place or name of another live one."""
    if columns and columns.keys().isdisjoint(_PLACE_COLUMNS):
        return False
    parent_id, kind, name, qualified_name = (
        columns.get(column, getattr(thing, column)) for column in _PLACE_COLUMNS
    )
    others = (
        find_child(conn, parent_id, name, kind) if parent_id else None,
        find_by_qualified_name(conn, qualified_name) if qualified_name else None,
    )
    return any(other is not None and other.id != thing.id for other in others)


def _name_conflict(conn: Connection, thing: Thing) -> Conflict:
    if thing.qualified_name and find_by_qualified_name(conn, thing.qualified_name):
        return Conflict(f"{thing.qualified_name} already exists.")
    return Conflict(f"A {thing.kind} named {thing.name} already exists.")
