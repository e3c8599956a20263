"""Kinds of changes: what versions added, changed or removed at paths."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, Select, bindparam, literal_column, select

from sshwarma.workspaces.manifests import Manifest
from sshwarma.workspaces.tree import Changes
from sshwarma.world.schema import manifest_entries, manifests

ChangeKind: TypeAlias = Literal["added", "changed", "removed"]


def read_change_kinds(
    conn: Connection, manifest: Manifest, changes: Changes, paths: Collection[str]
) -> dict[str, ChangeKind]:
    """Return what a version did at some of its paths.

    Only the entries of these paths are read of the version before. An empty folder that has got
    its first file is changed: its own entry is gone, and it is still there. So is one that has lost
    its last file, and has an entry of its own now.

    Args:
        conn: a connection.
        manifest: the version.
        changes: all that it changed.
        paths: some of the paths in `changes`.
    """
    before = _read_contents(conn, manifest.parent_id, paths)
    return {path: _find_kind(path, before, changes) for path in paths}


def _find_kind(path: str, before: Mapping[str, str], changes: Changes) -> ChangeKind:
    entry = changes[path]
    if entry is not None:
        was_there = path in before or (
            entry.is_folder
            and any(one is None and other.startswith(f"{path}/") for other, one in changes.items())
        )
        return "changed" if was_there else "added"
    is_folder = before.get(path) == "" and any(
        entry is not None and other.startswith(f"{path}/") for other, entry in changes.items()
    )
    return "changed" if is_folder else "removed"


def _read_contents(
    conn: Connection, manifest_id: str | None, paths: Collection[str]
) -> dict[str, str]:
    """Return the hashes at paths of a version; "" of an empty folder."""
    if manifest_id is None or not paths:
        return {}
    found: dict[str, str] = {}
    for row in conn.execute(_CONTENTS_QUERY, {"manifest": manifest_id, "paths": list(paths)}):
        if row.sha256 is None:
            found.pop(row.path, None)
        else:
            found[row.path] = row.sha256
    return found


def _build_contents_query() -> Select[Any]:
    """Build the query for entries from the version that has all up to a version."""
    columns = (manifests.c.id, manifests.c.parent_id, manifests.c.is_full)
    first = select(*columns, literal_column("0").label("up"))
    chain = first.where(manifests.c.id == bindparam("manifest")).cte("above", recursive=True)
    earlier = select(*columns, chain.c.up + 1)
    chain = chain.union_all(
        earlier.where(manifests.c.id == chain.c.parent_id, chain.c.is_full == 0)
    )
    return (
        select(manifest_entries.c.path, manifest_entries.c.sha256)
        .join(chain, chain.c.id == manifest_entries.c.manifest_id)
        .where(manifest_entries.c.path.in_(bindparam("paths", expanding=True)))
        .order_by(chain.c.up.desc())
    )


_CONTENTS_QUERY: Final = _build_contents_query()
