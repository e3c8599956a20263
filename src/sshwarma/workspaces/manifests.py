"""Manifests: the versions of a room's files, each a change of the one before it.

A manifest stores what it changes. Every FULL_EVERY steps one stores all its entries, so that
reading a version never walks further back. The room's metadata names its present version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    or_,
    select,
)

from sshwarma.common.limits import MAX_LISTED_VERSIONS
from sshwarma.common.times import format_iso
from sshwarma.workspaces.tree import Changes, Entry, Tree, apply_changes
from sshwarma.world import things
from sshwarma.world.errors import Conflict, NotFound, unknown_name_error
from sshwarma.world.ids import new_id
from sshwarma.world.reader import next_call
from sshwarma.world.schema import manifest_entries, manifests
from sshwarma.world.store import Change
from sshwarma.world.turns import MANIFEST_KEY

Source = Literal["user_upload", "edit", "tool_run", "branch", "git_push"]

FULL_EVERY: Final = 50
"""Manifests of which one stores all entries: reading a version reads at most that many."""

SHORT_ID_CHARACTERS: Final = 6
"""Characters of a manifest's short id: its last ones, which are random."""

MIN_ID_CHARACTERS: Final = 4
"""Characters of the end of an id that name a manifest: one or two would do so by chance."""


class NothingChanges(Conflict):
    """The present version of the files has all changes already."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A version of a room's files.

    Attributes:
        entry_count: its entries, folders that have entries not counted.
        total_bytes: the sum of their sizes.
        author_id: whose change made it.
        created_at: ISO 8601, in UTC.
        source_ref: of a tool's run its call, of a branch its turn, of a push its commit, of an
            edit the version that it restored; None of another edit.
    """

    id: str
    room_id: str
    parent_id: str | None
    entry_count: int
    total_bytes: int
    author_id: str | None
    created_at: str
    source: Source
    source_ref: str | None

    @property
    def short_id(self) -> str:
        """The short id that people use."""
        return shorten_id(self.id)

    @property
    def is_beginning(self) -> bool:
        """Whether it is the empty version with which a call of a tool began."""
        return self.source == "tool_run" and self.parent_id is None and not self.entry_count


def shorten_id(manifest_id: str) -> str:
    """Return the short id of a version, which names it nearly always; "" of ""."""
    return manifest_id[-SHORT_ID_CHARACTERS:]


def read_active_id(conn: Connection, room_id: str) -> str | None:
    """Return the id of the present version of a room's files; None before the first."""
    room = things.get_thing(conn, room_id)
    active_id = room.metadata.get(MANIFEST_KEY) if room else None
    return str(active_id) if active_id else None


def set_active(tx: Change, room_id: str, manifest_id: str | None) -> None:
    """Make a version the present one; None is the workspace before the first file."""
    things.set_metadata(tx, room_id, structural=False, **{MANIFEST_KEY: manifest_id})


def get_manifest(conn: Connection, manifest_id: str) -> Manifest | None:
    """Return a manifest by its id; None if it does not exist."""
    query = select(manifests).where(manifests.c.id == manifest_id)
    row = conn.execute(query).mappings().first()
    return _manifest_from_row(row) if row is not None else None


def find_manifest(conn: Connection, room_id: str, name: str) -> Manifest:
    """Return the manifest of a room by its id or the end of it.

    Raises:
        NotFound: if no manifest matches, or several do.
    """
    if 0 < len(name) < MIN_ID_CHARACTERS:
        raise NotFound(
            f"{name} is too short: give at least {MIN_ID_CHARACTERS} characters of an id's end.",
            hint=next_call("{} lists them.", "file history"),
        )
    query = select(manifests).where(
        manifests.c.room_id == room_id, manifests.c.id.endswith(name.lower(), autoescape=True)
    )
    rows = conn.execute(query.limit(2)).mappings().all() if name else []
    if not rows:
        raise unknown_name_error(
            "version",
            name,
            where="of the files here",
            hint=next_call("{} lists them.", "file history"),
        )
    if len(rows) > 1:
        raise NotFound(
            f"{name} is ambiguous: several versions end in it.", hint="Give more of the id."
        )
    return _manifest_from_row(rows[0])


def append_manifest(
    tx: Change,
    room_id: str,
    before: Tree,
    changes: Changes,
    *,
    source: Source,
    source_ref: str | None = None,
    author_id: str | None = None,
    turn_id: str | None = None,
) -> Manifest:
    """Store a version that follows the present one, and make it the present one.

    `before` is the tree of the present version.

    Raises:
        NothingChanges: if nothing does; commits that are pushed may change no file.
    """
    if not changes and source != "git_push":
        raise NothingChanges("Nothing changes.")
    return _append(tx, room_id, before, changes, source, source_ref, author_id, turn_id)


def append_beginning(tx: Change, room_id: str, call_id: str, author_id: str) -> Manifest:
    """Store the empty version with which a call of a tool begins.

    The room has none before. No turn takes it along, and git has no commit for it.
    """
    return _append(tx, room_id, {}, {}, "tool_run", call_id, author_id, None)


def _append(
    tx: Change,
    room_id: str,
    before: Tree,
    changes: Changes,
    source: Source,
    source_ref: str | None,
    author_id: str | None,
    turn_id: str | None,
) -> Manifest:
    parent_id = read_active_id(tx.conn, room_id)
    above = tx.conn.execute(
        select(manifests.c.steps).where(manifests.c.id == parent_id)
    ).scalar_one_or_none()
    after = apply_changes(before, changes)
    is_full = above is None or above + 1 >= FULL_EVERY
    manifest = Manifest(
        new_id(),
        room_id,
        parent_id,
        len(after),
        sum(entry.size for entry in after.values()),
        author_id,
        format_iso(tx.now),
        source,
        source_ref,
    )
    values = {
        field: getattr(manifest, field)
        for field in ("id", "room_id", "parent_id", "entry_count", "total_bytes", "author_id")
    }
    tx.conn.execute(
        insert(manifests).values(
            **values,
            is_full=int(is_full),
            steps=0 if is_full or above is None else above + 1,
            created_at=manifest.created_at,
            source=source,
            source_ref=source_ref,
            turn_id=turn_id,
        )
    )
    entries = [
        _entry_values(manifest.id, path, entry)
        for path, entry in (after if is_full else changes).items()
    ]
    if entries:
        tx.conn.execute(insert(manifest_entries), entries)
    set_active(tx, room_id, manifest.id)
    return manifest


def read_tree(conn: Connection, manifest_id: str | None, path: str = "") -> dict[str, Entry]:
    """Return the entries of a version by path; none for None.

    With a path, only that one and those in the folder of that name.
    """
    tree: dict[str, Entry] = {}
    if manifest_id is None:
        return tree
    query = _ENTRIES_QUERY.where(is_at(path)) if path else _ENTRIES_QUERY
    for row in conn.execute(query, {"manifest": manifest_id}):
        if row.sha256 is None:
            tree.pop(row.path, None)
        else:
            tree[row.path] = Entry(row.sha256, row.mode, row.size)
    return tree


def is_at(path: str) -> ColumnElement[bool]:
    """Return the condition of a path, or of what is in the folder of that name."""
    column = manifest_entries.c.path
    after = chr(ord("/") + 1)  # so that the index of the paths is used
    return or_(column == path, and_(column > f"{path}/", column < f"{path}{after}"))


def read_change_times(conn: Connection, room_id: str, tree: Tree) -> dict[str, int]:
    """Return when the paths of a tree got what is there, in seconds since 1970."""
    changes = read_last_changes(conn, room_id, tree)
    return {path: int(datetime.fromisoformat(at).timestamp()) for path, (at, _) in changes.items()}


def read_last_changes(
    conn: Connection, room_id: str, tree: Tree
) -> dict[str, tuple[str, str | None]]:
    """Return when the paths of a tree got what is there, and from which agent.

    A version that stores all entries does not say which it changed: of those, the first one with
    the same entry counts.
    """
    of_room = manifests.join(manifest_entries, manifest_entries.c.manifest_id == manifests.c.id)
    path = manifest_entries.c.path
    of_versions = select(manifests.c.id, manifests.c.created_at, manifests.c.author_id)
    made = {
        version_id: (at, author_id)
        for version_id, at, author_id in conn.execute(
            of_versions.where(manifests.c.room_id == room_id)
        )
    }
    changed = (  # ids are in order of time
        select(path, func.max(manifests.c.id))
        .select_from(of_room)
        .where(manifests.c.room_id == room_id, manifests.c.is_full == 0)
        .group_by(path)
    )
    last = {name: made[newest] for name, newest in conn.execute(changed) if name in tree}
    sha256, mode = manifest_entries.c.sha256, manifest_entries.c.mode
    stored = (
        select(path, sha256, mode, func.min(manifests.c.id))
        .select_from(of_room)
        .where(manifests.c.room_id == room_id, manifests.c.is_full == 1)
        .group_by(path, sha256, mode)
    )
    for name, content, of_mode, oldest in conn.execute(stored):
        entry, (at, by) = tree.get(name), made[oldest]
        is_same = entry is not None and (entry.sha256, entry.mode) == (content, of_mode)
        if is_same and (name not in last or last[name][0] < at):
            last[name] = at, by
    return last


def read_changed_paths(conn: Connection, manifest: Manifest) -> dict[str, Entry | None]:
    """Return what a version changed of the one before it; None for what it removed."""
    row = conn.execute(
        select(manifests.c.is_full).where(manifests.c.id == manifest.id)
    ).scalar_one()
    if row:
        before, after = read_tree(conn, manifest.parent_id), read_tree(conn, manifest.id)
        paths = {path for path in (*before, *after) if before.get(path) != after.get(path)}
        return {path: after.get(path) for path in sorted(paths)}
    query = (
        select(manifest_entries)
        .where(manifest_entries.c.manifest_id == manifest.id)
        .order_by(manifest_entries.c.path)
    )
    return {
        item.path: None if item.sha256 is None else Entry(item.sha256, item.mode, item.size)
        for item in conn.execute(query)
    }


def find_last_run(conn: Connection, manifest_id: str | None) -> Manifest | None:
    """Return the newest version up to this one that a run of a tool made.

    Only the MAX_LISTED_VERSIONS newest versions are looked at.
    """
    newest = islice(walk_up(conn, manifest_id), MAX_LISTED_VERSIONS)
    return next((manifest for manifest in newest if manifest.source == "tool_run"), None)


def walk_up(conn: Connection, manifest_id: str | None) -> Iterator[Manifest]:
    """Yield a version and those before it, the newest first."""
    while manifest_id is not None:
        manifest = get_manifest(conn, manifest_id)
        if manifest is None:
            return
        yield manifest
        manifest_id = manifest.parent_id


def _build_entries_query() -> Select[Any]:
    first = select(
        manifests.c.id, manifests.c.parent_id, manifests.c.is_full, literal_column("0").label("up")
    ).where(manifests.c.id == bindparam("manifest"))
    chain = first.cte("above", recursive=True)
    earlier = select(
        manifests.c.id, manifests.c.parent_id, manifests.c.is_full, chain.c.up + 1
    ).where(manifests.c.id == chain.c.parent_id, chain.c.is_full == 0)
    chain = chain.union_all(earlier)
    return (
        select(
            manifest_entries.c.path,
            manifest_entries.c.sha256,
            manifest_entries.c.mode,
            manifest_entries.c.size,
        )
        .join(chain, chain.c.id == manifest_entries.c.manifest_id)
        .order_by(chain.c.up.desc(), manifest_entries.c.path)
    )


_ENTRIES_QUERY: Final = _build_entries_query()
"""Built once: building it takes as long as running it on a small workspace."""


def _entry_values(manifest_id: str, path: str, entry: Entry | None) -> dict[str, Any]:
    return {
        "manifest_id": manifest_id,
        "path": path,
        "sha256": entry.sha256 if entry else None,
        "mode": entry.mode if entry else 0,
        "size": entry.size if entry else 0,
    }


def _manifest_from_row(row: RowMapping) -> Manifest:
    return Manifest(
        row["id"],
        row["room_id"],
        row["parent_id"],
        row["entry_count"],
        row["total_bytes"],
        row["author_id"],
        row["created_at"],
        row["source"],
        row["source_ref"],
    )
