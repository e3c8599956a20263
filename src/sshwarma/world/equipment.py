"""Equipment: rows that turn a thing on or off in a context (a room or an agent).

A live row means on. A soft-deleted row means off, and is kept for two reasons: equipping again
revives it, and a tool that its namespace would turn on stays off. Equipment does not say where a
thing lives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sqlalchemy import Connection, insert, select, update

from sshwarma.common.limits import MAX_EQUIP_PATTERNS
from sshwarma.world import things as tree
from sshwarma.world.errors import Invalid
from sshwarma.world.events import WorldChanged
from sshwarma.world.reader import next_call
from sshwarma.world.schema import equipped, things
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class EquippedRow:
    """One equipment row, with its thing."""

    context_id: str
    thing: Thing
    priority: float
    equipped: bool


def read_equipped_rows(conn: Connection, context_ids: Iterable[str]) -> list[EquippedRow]:
    """Every row of those contexts whose thing is live, on and off."""
    query = (
        select(
            things,
            equipped.c.context_id,
            equipped.c.priority,
            equipped.c.deleted_at.label("off_at"),
        )
        .join(equipped, equipped.c.thing_id == things.c.id)
        .where(equipped.c.context_id.in_(list(context_ids)), things.c.deleted_at.is_(None))
        .order_by(equipped.c.priority, things.c.qualified_name, things.c.name, things.c.id)
    )
    return [
        EquippedRow(
            row["context_id"], tree.thing_from_row(row), row["priority"], row["off_at"] is None
        )
        for row in conn.execute(query).mappings()
    ]


@dataclass(frozen=True, slots=True)
class EquipChange:
    """Result of a request: things changed, things already so, and patterns without a match."""

    changed: tuple[Thing, ...]
    unchanged: tuple[Thing, ...]
    unmatched: tuple[str, ...]


def equip_things(
    tx: Change, context_id: str, wanted: Sequence[Thing], priority: float | None = None
) -> tuple[list[Thing], list[Thing]]:
    """Turn things on in a context. Returns those that changed and those that were already on.

    A new row has priority 0 and a revived one keeps its own, unless `priority` is given.
    """
    changed: list[Thing] = []
    unchanged: list[Thing] = []
    rows_by_id = {row.thing.id: row for row in read_equipped_rows(tx.conn, [context_id])}
    for thing in wanted:
        row = rows_by_id.get(thing.id)
        if row is None:
            values = {"context_id": context_id, "thing_id": thing.id, "priority": priority or 0.0}
            tx.conn.execute(insert(equipped).values(created_at=tx.now, **values))
        elif row.equipped and (priority is None or priority == row.priority):
            unchanged.append(thing)
            continue
        else:
            new_priority = row.priority if priority is None else priority
            _update_equipped(tx, context_id, thing.id, deleted_at=None, priority=new_priority)
        changed.append(thing)
    if changed:
        tx.publish_on_commit(WorldChanged(context_id))
    return changed, unchanged


def unequip_things(
    tx: Change, context_id: str, wanted: Sequence[Thing], through_namespace: Iterable[str] = ()
) -> tuple[list[Thing], list[Thing]]:
    """Turn things off in a context. Returns those that changed and those that were already off.

    `through_namespace` are ids of tools that are on there without a row of their own: each gets a
    row that turns it off.
    """
    changed: list[Thing] = []
    unchanged: list[Thing] = []
    inherited_ids = set(through_namespace)
    rows_by_id = {row.thing.id: row for row in read_equipped_rows(tx.conn, [context_id])}
    for thing in wanted:
        row = rows_by_id.get(thing.id)
        if row is not None and row.equipped:
            _update_equipped(tx, context_id, thing.id, deleted_at=tx.now)
        elif row is None and thing.id in inherited_ids:
            values = {"context_id": context_id, "thing_id": thing.id, "deleted_at": tx.now}
            tx.conn.execute(insert(equipped).values(created_at=tx.now, **values))
        else:
            unchanged.append(thing)
            continue
        changed.append(thing)
    if changed:
        tx.publish_on_commit(WorldChanged(context_id))
    return changed, unchanged


def copy_equipment(tx: Change, from_id: str, to_id: str) -> None:
    """Copy the live rows of a context to a new one: the relationships, not the things."""
    source = select(equipped).where(
        equipped.c.context_id == from_id, equipped.c.deleted_at.is_(None)
    )
    copies = [
        {
            "context_id": to_id,
            "thing_id": row["thing_id"],
            "priority": row["priority"],
            "created_at": tx.now,
        }
        for row in tx.conn.execute(source).mappings()
    ]
    if copies:
        tx.conn.execute(insert(equipped), copies)


def split_patterns(text: str) -> list[str]:
    """Split patterns: `sshwarma:join,leave,go` is three patterns of one namespace.

    Spaces separate as commas do; quotes, which a shell would need, are ignored.

    Raises:
        Invalid: if there are no patterns, or more than MAX_EQUIP_PATTERNS.
    """
    patterns: list[str] = []
    namespace = ""
    for word in re.sub("[,'\"]", " ", text).split():
        if ":" in word:
            namespace = word.split(":", 1)[0] if "," in text else ""
            patterns.append(word)
        else:
            patterns.append(f"{namespace}:{word}" if namespace else word)
    if not patterns:
        raise Invalid(
            "Nothing to equip was given.",
            hint=next_call("For example: {}", "equip", context="room", patterns="sshwarma:look"),
        )
    if len(patterns) > MAX_EQUIP_PATTERNS:
        raise Invalid(f"patterns: at most {MAX_EQUIP_PATTERNS} at a time (got {len(patterns)}).")
    return list(dict.fromkeys(patterns))


def match_things(conn: Connection, pattern: str, bags: Sequence[str]) -> list[Thing]:
    """Return the things that match a pattern.

    Tools and namespaces match by qualified name, data and references by their name in one of the
    bags, which are a room's and an agent's. `home:NAME` searches home's bag only, `room:NAME` the
    first and `me:NAME` the second. If both bags have a name, the first one wins.
    """
    matches: dict[str, Thing] = {}
    bag_pattern, bag_ids = pattern, list(bags)
    word, _, rest = pattern.partition(":")
    named_bag = {"home": "home", **dict(zip(("room", "me"), bags, strict=False))}.get(word)
    if rest and named_bag is not None:
        bag_pattern, bag_ids = rest, [named_bag]
    else:
        for thing in _match_qualified_names(conn, pattern):
            matches[thing.id] = thing
    names: set[str] = set()
    for bag_id in bag_ids:
        for thing in _match_bag(conn, bag_id, bag_pattern):
            if thing.name not in names:
                matches.setdefault(thing.id, thing)
        names |= {thing.name for thing in matches.values()}
    return list(matches.values())


def _match_qualified_names(conn: Connection, pattern: str) -> list[Thing]:
    prefix = _fixed_prefix(pattern)
    query = select(things).where(
        things.c.deleted_at.is_(None),
        things.c.qualified_name.is_not(None),
        things.c.kind.not_in(("room", "agent")),
    )
    if prefix == pattern:
        query = query.where(things.c.qualified_name == pattern)
    elif prefix:  # a range, because an index serves it and LIKE would scan
        query = query.where(
            things.c.qualified_name >= prefix, things.c.qualified_name < prefix + "\U0010ffff"
        )
    if prefix != pattern:
        # A wildcard matches tools only: whole namespaces are loaded by name.
        query = query.where(things.c.kind.in_(("tool", "data", "reference")))
    rows = conn.execute(query.order_by(things.c.qualified_name)).mappings()
    return [
        tree.thing_from_row(row)
        for row in rows
        if fnmatchcase(row["qualified_name"], _escape_glob(pattern))
    ]


def _match_bag(conn: Connection, bag_id: str, pattern: str) -> list[Thing]:
    query = select(things).where(
        things.c.parent_id == bag_id,
        things.c.deleted_at.is_(None),
        things.c.kind.in_(("tool", "data", "reference")),
    )
    prefix = _fixed_prefix(pattern)
    if prefix == pattern:
        query = query.where(things.c.name == pattern)
    rows = conn.execute(query.order_by(things.c.name)).mappings()
    return [
        tree.thing_from_row(row) for row in rows if fnmatchcase(row["name"], _escape_glob(pattern))
    ]


def _fixed_prefix(pattern: str) -> str:
    for index, character in enumerate(pattern):
        if character in "*?":
            return pattern[:index]
    return pattern


def _escape_glob(pattern: str) -> str:
    return pattern.replace("[", "[[]")  # only * and ? are special here


def _update_equipped(tx: Change, context_id: str, thing_id: str, **values: object) -> None:
    tx.conn.execute(
        update(equipped)
        .where(equipped.c.context_id == context_id, equipped.c.thing_id == thing_id)
        .values(**values)
    )
