"""Garbage collection: finds what `/gc` lists; the only place that hard-deletes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, select

from sshwarma.common.limits import MAX_TREE_DEPTH
from sshwarma.common.units import DAY_MS
from sshwarma.world import equipment, schema, things
from sshwarma.world.events import WorldChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.schema import equipped, exits
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

BATCH_THINGS: Final = 500
"""Things that one statement names, and that one step of a purge removes."""

# References that keep a thing: all columns except its own equipment and exits.
_REFERENCE_COLUMNS: Final = (
    schema.rows.c.room_id,
    schema.rows.c.author_id,
    schema.turns.c.room_id,
    schema.turns.c.agent_id,
    schema.turns.c.opened_by,
    schema.tool_calls.c.room_id,
    schema.attachments.c.room_id,
    schema.manifests.c.room_id,
    schema.manifests.c.author_id,
    schema.git_authors.c.agent_id,
    schema.usage.c.room_id,
    schema.usage.c.agent_id,
    schema.agent_keys.c.agent_id,
    schema.tokens.c.agent_id,
    schema.invites.c.created_by,
    schema.invites.c.used_by,
    schema.input_lines.c.agent_id,
    schema.room_members.c.agent_id,
)


@dataclass(frozen=True, slots=True)
class Garbage:
    """Things that `/gc` lists, and those that stay because something refers to them."""

    things: tuple[Thing, ...]
    referenced: tuple[Thing, ...] = ()


def find_orphans(conn: Connection) -> Garbage:
    """Return live things whose parent is missing or deleted, except the world itself."""
    parent = things_table.alias("parent")
    query = (
        select(things_table)
        .outerjoin(parent, parent.c.id == things_table.c.parent_id)
        .where(
            things_table.c.deleted_at.is_(None),
            things_table.c.id != "world",
            (parent.c.id.is_(None)) | (parent.c.deleted_at.is_not(None)),
        )
        .order_by(things_table.c.name)
    )
    return Garbage(tuple(things.thing_from_row(row) for row in conn.execute(query).mappings()))


def find_deleted_things(
    conn: Connection, days: int, among: Collection[str] | None = None
) -> Garbage:
    """Return things deleted at least `days` ago, split by whether they can be purged.

    With `among`, which are ids, other things are not looked at.
    """
    query = (
        select(things_table)
        .where(
            things_table.c.deleted_at.is_not(None),
            things_table.c.deleted_at <= now_ms() - days * DAY_MS,
        )
        .order_by(things_table.c.deleted_at)
    )
    if among is not None:
        query = query.where(things_table.c.id.in_(among))
    deleted_things = [things.thing_from_row(row) for row in conn.execute(query).mappings()]
    referenced_ids = _referenced_ids(conn, deleted_things)
    return Garbage(
        tuple(thing for thing in deleted_things if thing.id not in referenced_ids),
        tuple(thing for thing in deleted_things if thing.id in referenced_ids),
    )


def split_purge(garbage: Garbage) -> list[list[str]]:
    """Return the ids of what can be purged in steps, what is in a bag before the bag."""
    return list(_split_batches([thing.id for thing in _sort_leaves_first(garbage.things)]))


def purge_deleted_things(tx: Change, days: int, among: Collection[str] | None = None) -> Garbage:
    """Hard-delete what `find_deleted_things` finds, with its equipment and exits."""
    garbage = find_deleted_things(tx.conn, days, among)
    for batch in _split_batches([thing.id for thing in garbage.things]):
        for column in (
            equipped.c.context_id,
            equipped.c.thing_id,
            exits.c.from_room_id,
            exits.c.to_room_id,
            schema.room_members.c.room_id,
            schema.text_versions.c.scope_id,
            schema.hooks.c.room_id,
            schema.script_state.c.script_id,
            schema.script_state.c.owner_id,
            schema.triggers.c.thing_id,
            schema.triggers.c.room_id,
        ):
            tx.conn.execute(delete(column.table).where(column.in_(batch)))
    known = select(schema.triggers.c.id)
    runs = schema.trigger_runs
    tx.conn.execute(delete(runs).where(runs.c.trigger_id.not_in(known)))
    equipment.delete_agents_in_rooms(tx, {thing.id for thing in garbage.things})
    for thing in _sort_leaves_first(garbage.things):
        tx.conn.execute(delete(things_table).where(things_table.c.id == thing.id))
    tx.publish_on_commit(WorldChanged())
    return garbage


def delete_orphans(tx: Change) -> Garbage:
    """Soft-delete orphans, to be restored with, or purged after, their parent."""
    garbage = find_orphans(tx.conn)
    for thing in garbage.things:
        things.delete_thing(tx, thing)
    return garbage


def _referenced_ids(conn: Connection, found: Iterable[Thing]) -> set[str]:
    """Ids of things that a log, a key, a call or a remaining child refers to."""
    candidate_ids = {thing.id for thing in found}
    referenced_ids: set[str] = set()
    for batch in _split_batches(list(candidate_ids)):
        for column in _REFERENCE_COLUMNS:
            query = select(column).where(column.in_(batch)).distinct()
            referenced_ids |= {thing_id for (thing_id,) in conn.execute(query)}
        query = select(things_table.c.parent_id, things_table.c.id).where(
            things_table.c.parent_id.in_(batch)
        )
        referenced_ids |= {
            parent for parent, child in conn.execute(query) if child not in candidate_ids
        }
    parents = {thing.id: thing.parent_id for thing in found}
    stack = list(referenced_ids)
    while stack:  # a thing that stays keeps its parent
        parent = parents.get(stack.pop())
        if parent in candidate_ids and parent not in referenced_ids:
            referenced_ids.add(parent)
            stack.append(parent)
    return referenced_ids


def _sort_leaves_first(found: Iterable[Thing]) -> list[Thing]:
    parents = {thing.id: thing.parent_id for thing in found}

    def depth(thing: Thing) -> int:
        steps, parent_id = 0, thing.parent_id
        while parent_id in parents and steps < MAX_TREE_DEPTH:
            parent_id, steps = parents[parent_id], steps + 1
        return steps

    return sorted(found, key=depth, reverse=True)


def _split_batches(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + BATCH_THINGS] for start in range(0, len(ids), BATCH_THINGS))
