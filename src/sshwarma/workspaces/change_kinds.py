"""Kinds of changes: what was added, changed or removed at paths."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, Select, bindparam, literal_column, select

from sshwarma.workspaces.manifests import Manifest
from sshwarma.workspaces.paths import list_parents
from sshwarma.workspaces.tree import Changes, Entry, Tree
from sshwarma.world.schema import manifest_entries, manifests

ChangeKind: TypeAlias = Literal["added", "changed", "removed"]


def find_change_kinds(
    before: Tree, changes: Changes, paths: Collection[str] | None = None
) -> dict[str, ChangeKind]:
    """Return what was done at paths.

    An empty folder that has got its first file is changed: its own entry is gone, and it is still
    there. So is one that has lost its last file, and has an entry of its own now.

    Args:
        before: the tree before; what it has at `paths` is enough.
        changes: all changes of that tree.
        paths: some of the paths in `changes` (default: all).
    """
    filled = {above for path, entry in changes.items() if entry for above in list_parents(path)}
    emptied = {
        above for path, entry in changes.items() if not entry for above in list_parents(path)
    }

    def find_kind(path: str) -> ChangeKind:
        old, new = before.get(path), changes[path]
        if new is None:
            is_filled = old is not None and old.is_folder and path in filled
            return "changed" if is_filled else "removed"
        is_emptied = new.is_folder and path in emptied
        return "changed" if old is not None or is_emptied else "added"

    return {path: find_kind(path) for path in (changes if paths is None else paths)}


def read_change_kinds(
    conn: Connection, manifest: Manifest, changes: Changes, paths: Collection[str]
) -> dict[str, ChangeKind]:
    """Return what a version did at some of its paths.

    Only the entries of these paths are read of the version before.

    Args:
        conn: a connection.
        manifest: the version.
        changes: all that it changed.
        paths: some of the paths in `changes`.
    """
    return find_change_kinds(_read_entries(conn, manifest.parent_id, paths), changes, paths)


def _read_entries(conn: Connection, manifest_id: str | None, paths: Collection[str]) -> Tree:
    """Return what a version has at paths."""
    if manifest_id is None or not paths:
        return {}
    found: dict[str, Entry] = {}
    for row in conn.execute(_ENTRIES_QUERY, {"manifest": manifest_id, "paths": list(paths)}):
        if row.sha256 is None:
            found.pop(row.path, None)
        else:
            found[row.path] = Entry(row.sha256, row.mode, row.size)
    return found


def _build_entries_query() -> Select[Any]:
    """Build the query for entries from the version that has all up to a version."""
    columns = (manifests.c.id, manifests.c.parent_id, manifests.c.is_full)
    first = select(*columns, literal_column("0").label("up"))
    chain = first.where(manifests.c.id == bindparam("manifest")).cte("above", recursive=True)
    earlier = select(*columns, chain.c.up + 1)
    chain = chain.union_all(
        earlier.where(manifests.c.id == chain.c.parent_id, chain.c.is_full == 0)
    )
    return (
        select(
            manifest_entries.c.path,
            manifest_entries.c.sha256,
            manifest_entries.c.mode,
            manifest_entries.c.size,
        )
        .join(chain, chain.c.id == manifest_entries.c.manifest_id)
        .where(manifest_entries.c.path.in_(bindparam("paths", expanding=True)))
        .order_by(chain.c.up.desc())
    )


_ENTRIES_QUERY: Final = _build_entries_query()
