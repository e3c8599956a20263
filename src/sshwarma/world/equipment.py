"""Equipment: rows that turn a thing on or off in a context.

A context is a room, an agent, or one in the other. A live row means on. Unequipping takes it back:
the row is soft-deleted and decides nothing, and is kept because equipping again revives it with its
priority. A soft-deleted row with `switched_off` means off, also where a namespace or another
context would turn the thing on; only `switch_off_things` writes it. Equipment does not say where a
thing lives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlalchemy import Connection, bindparam, delete, func, insert, literal, or_, select

from sshwarma.common.limits import MAX_EQUIP_PATTERNS
from sshwarma.world import things as tree
from sshwarma.world.errors import Invalid, empty_error
from sshwarma.world.events import WorldChanged
from sshwarma.world.glob_patterns import compile_glob
from sshwarma.world.ids import HOME_ID
from sshwarma.world.portable_sql import upsert
from sshwarma.world.reader import next_call
from sshwarma.world.schema import equipped, things
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class EquippedRow:
    """One equipment row, with its thing; one that is not `equipped` switches it off."""

    context_id: str
    thing: Thing
    priority: float
    equipped: bool


AGENTS_IN_ROOMS: Final = "agents-in-rooms"
"""The container of the contexts that are an agent in one room."""

RowState: TypeAlias = Literal["on", "off", "neutral"]

_MAX_SINGLE_READS: Final = 100
"""Things whose rows are asked for by their ids; for more, all rows of the context are read."""


# Built once: to build it takes longer than to run it.
_EQUIPPED_ROWS: Final = (
    select(
        things,
        equipped.c.context_id,
        equipped.c.priority,
        equipped.c.deleted_at.label("off_at"),
    )
    .join(equipped, equipped.c.thing_id == things.c.id)
    .where(
        equipped.c.context_id.in_(bindparam("context_ids", expanding=True)),
        or_(equipped.c.deleted_at.is_(None), equipped.c.switched_off == 1),
        things.c.deleted_at.is_(None),
    )
    .order_by(
        equipped.c.priority, things.c.qualified_name.nulls_first(), things.c.name, things.c.id
    )
)


def read_equipped_rows(conn: Connection, context_ids: Iterable[str]) -> list[EquippedRow]:
    """Return the rows of those contexts that turn something live on or off."""
    found = conn.execute(_EQUIPPED_ROWS, {"context_ids": list(context_ids)}).mappings()
    return [
        EquippedRow(
            row["context_id"], tree.thing_from_row(row), row["priority"], row["off_at"] is None
        )
        for row in found
    ]


def read_switched_off(conn: Connection, context_ids: Iterable[str]) -> list[str]:
    """Return the labels of what is switched off in one of those contexts, sorted."""
    query = (
        select(func.coalesce(things.c.qualified_name, things.c.name))
        .join(equipped, equipped.c.thing_id == things.c.id)
        .where(
            equipped.c.context_id.in_(list(context_ids)),
            equipped.c.deleted_at.is_not(None),
            equipped.c.switched_off == 1,
            things.c.deleted_at.is_(None),
        )
    )
    return sorted(set(conn.scalars(query)))


def agent_in_room_id(agent_id: str, room_id: str) -> str:
    """Return the id of the context that is an agent in one room; it may not exist."""
    return f"{agent_id}+{room_id}"


def ensure_agent_in_room(tx: Change, agent_id: str, room_id: str) -> Thing:
    """Return the context that is an agent in one room; create it if it is missing."""
    context_id = agent_in_room_id(agent_id, room_id)
    return tree.get_thing(tx.conn, context_id) or tree.create_thing(
        tx, AGENTS_IN_ROOMS, "container", context_id, id=context_id
    )


def clear_agent_in_rooms(tx: Change, agent_id: str, wanted: Sequence[Thing]) -> list[Thing]:
    """Take back what turns things on or off for an agent in single rooms.

    Returns what was on.
    """
    query = select(things.c.id).where(
        things.c.parent_id == AGENTS_IN_ROOMS, things.c.id.startswith(f"{agent_id}+")
    )
    were_on: dict[str, Thing] = {}
    for context_id in tx.conn.scalars(query).all():
        _set_row_states(tx, context_id, wanted, "neutral", changing=("off",))
        changed, _ = _set_row_states(tx, context_id, wanted, "neutral", changing=("on",))
        were_on |= {thing.id: thing for thing in changed}
    return list(were_on.values())


def delete_agents_in_rooms(tx: Change, ids: AbstractSet[str]) -> None:
    """Hard-delete the contexts of these agents and rooms, with their equipment."""
    query = select(things.c.id).where(things.c.parent_id == AGENTS_IN_ROOMS)
    for context_id in tx.conn.scalars(query).all():
        if not ids.isdisjoint(context_id.split("+")):
            tx.conn.execute(delete(equipped).where(equipped.c.context_id == context_id))
            tx.conn.execute(delete(things).where(things.c.id == context_id))


def equip_things(
    tx: Change, context_id: str, wanted: Sequence[Thing], priority: float | None = None
) -> tuple[list[Thing], list[Thing]]:
    """Turn things on in a context; return those changed and those already on.

    A new row has priority 0 and a revived one keeps its own, unless `priority` is given.
    """
    changed: list[Thing] = []
    unchanged: list[Thing] = []
    priorities: dict[str, float] = {}
    states = read_row_states(tx.conn, context_id, wanted)
    for thing in wanted:
        state, old_priority = states.get(thing.id, ("neutral", 0.0))
        new_priority = old_priority if priority is None else priority
        if state == "on" and new_priority == old_priority:
            unchanged.append(thing)
            continue
        priorities[thing.id] = new_priority
        changed.append(thing)
    _write_rows(tx, context_id, "on", priorities)
    return changed, unchanged


def unequip_things(
    tx: Change, context_id: str, wanted: Iterable[Thing]
) -> tuple[list[Thing], list[Thing]]:
    """Take back the rows that turn things on in a context.

    Returns the things that changed, and those that had no such row. What else turns them on still
    does.
    """
    return _set_row_states(tx, context_id, wanted, "neutral", changing=("on",))


def switch_off_things(
    tx: Change, context_id: str, wanted: Iterable[Thing]
) -> tuple[list[Thing], list[Thing]]:
    """Switch things off in a context, whatever else turns them on.

    Returns the things that changed, and those that were switched off before.
    """
    return _set_row_states(tx, context_id, wanted, "off", changing=("on", "neutral"))


def _set_row_states(
    tx: Change,
    context_id: str,
    wanted: Iterable[Thing],
    new_state: RowState,
    changing: tuple[RowState, ...],
) -> tuple[list[Thing], list[Thing]]:
    """Set the rows in a state of `changing`; return their things, and the others."""
    wanted = list(wanted)
    changed: list[Thing] = []
    unchanged: list[Thing] = []
    priorities: dict[str, float] = {}
    states = read_row_states(tx.conn, context_id, wanted)
    for thing in wanted:
        state, priority = states.get(thing.id, ("neutral", 0.0))
        if state in changing:
            priorities[thing.id] = priority
            changed.append(thing)
        else:
            unchanged.append(thing)
    _write_rows(tx, context_id, new_state, priorities)
    return changed, unchanged


def read_row_states(
    conn: Connection, context_id: str, wanted: Sequence[Thing]
) -> dict[str, tuple[RowState, float]]:
    """Return states and priorities of things in a context, by the things' ids.

    Those of other things may be among them.
    """
    query = select(equipped).where(equipped.c.context_id == context_id)
    if len(wanted) <= _MAX_SINGLE_READS:
        query = query.where(equipped.c.thing_id.in_([thing.id for thing in wanted]))
    found: dict[str, tuple[RowState, float]] = {}
    for row in conn.execute(query):
        state: RowState = "off" if row.switched_off else "neutral"
        found[row.thing_id] = ("on" if row.deleted_at is None else state, row.priority)
    return found


_NEW_ROW: Final = upsert(equipped)
_WRITE_ROW: Final = _NEW_ROW.on_conflict_do_update(
    index_elements=["context_id", "thing_id"],
    set_={name: _NEW_ROW.excluded[name] for name in ("priority", "deleted_at", "switched_off")},
)


def _write_rows(
    tx: Change, context_id: str, state: RowState, priorities: Mapping[str, float]
) -> None:
    """Set the rows of things to a state; `priorities` are by the ids of the things."""
    values = {
        "context_id": context_id,
        "created_at": tx.now,
        "deleted_at": None if state == "on" else tx.now,
        "switched_off": int(state == "off"),
    }
    new_rows = [
        {"thing_id": thing_id, "priority": priority, **values}
        for thing_id, priority in priorities.items()
    ]
    if new_rows:
        tx.conn.execute(_WRITE_ROW, new_rows)
        tx.publish_on_commit(WorldChanged(context_id))


def read_off_contexts(conn: Connection, thing_ids: Sequence[str]) -> set[str]:
    """Return the ids of the contexts in which one of these things is switched off."""
    query = select(equipped.c.context_id).where(
        equipped.c.thing_id.in_(thing_ids),
        equipped.c.deleted_at.is_not(None),
        equipped.c.switched_off == 1,
    )
    return set(conn.scalars(query))


def find_rooms_with(conn: Connection, thing_ids: Sequence[str]) -> set[str]:
    """Return the ids of the rooms where one of these things is turned on."""
    query = (
        select(equipped.c.context_id)
        .join(things, things.c.id == equipped.c.context_id)
        .where(
            equipped.c.thing_id.in_(thing_ids),
            equipped.c.deleted_at.is_(None),
            things.c.kind == "room",
            things.c.deleted_at.is_(None),
        )
    )
    return set(conn.scalars(query))


def copy_equipment(tx: Change, from_id: str, to_id: str) -> None:
    """Copy a context's live rows to a new one: the relationships, not the things.

    A text in the bag of the old one is replaced by its namesake in the bag of the new one.
    """
    old, copy = things.alias("old"), things.alias("copy")
    source = (
        select(
            literal(to_id),
            func.coalesce(copy.c.id, equipped.c.thing_id),
            equipped.c.priority,
            literal(tx.now),
        )
        .select_from(equipped)
        .outerjoin(
            old,
            (old.c.id == equipped.c.thing_id)
            & (old.c.parent_id == from_id)
            & old.c.kind.in_(("data", "reference"))
            & old.c.deleted_at.is_(None),
        )
        .outerjoin(
            copy,
            (copy.c.parent_id == to_id)
            & (copy.c.kind == old.c.kind)
            & (copy.c.name == old.c.name)
            & copy.c.deleted_at.is_(None),
        )
        .where(equipped.c.context_id == from_id, equipped.c.deleted_at.is_(None))
    )
    columns = ["context_id", "thing_id", "priority", "created_at"]
    tx.conn.execute(insert(equipped).from_select(columns, source, include_defaults=False))


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
        raise empty_error(
            "patterns",
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
    named_bag = {"home": HOME_ID, **dict(zip(("room", "me"), bags, strict=False))}.get(word)
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
    matches = compile_glob(pattern, has_sets=False, argument="patterns")
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
    return [tree.thing_from_row(row) for row in rows if matches(row["qualified_name"])]


def _match_bag(conn: Connection, bag_id: str, pattern: str) -> list[Thing]:
    matches = compile_glob(pattern, has_sets=False, argument="patterns")
    query = select(things).where(
        things.c.parent_id == bag_id,
        things.c.deleted_at.is_(None),
        things.c.kind.in_(("tool", "data", "reference")),
    )
    prefix = _fixed_prefix(pattern)
    if prefix == pattern:
        query = query.where(things.c.name == pattern)
    rows = conn.execute(query.order_by(things.c.name)).mappings()
    return [tree.thing_from_row(row) for row in rows if matches(row["name"])]


def _fixed_prefix(pattern: str) -> str:
    for index, character in enumerate(pattern):
        if character in "*?":
            return pattern[:index]
    return pattern
