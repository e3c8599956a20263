"""The versions of a room's files, and those that changed a path."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, bindparam, exists, or_, select

from sshwarma.workspaces.manifests import Manifest, get_manifest, is_at, read_tree, walk_up
from sshwarma.workspaces.tree import compare_trees
from sshwarma.world.schema import manifest_entries, manifests


def list_manifests(
    conn: Connection, manifest_id: str | None, limit: int, path: str = ""
) -> list[tuple[Manifest, bool]]:
    """Return a version and those before it, newest first.

    Each comes with whether it removed `path`. With a path, only the versions in which it, or
    something in that folder, changed.
    """
    if path:
        return list(islice(_walk_changes(conn, manifest_id, path), limit))
    return [(manifest, False) for manifest in islice(walk_up(conn, manifest_id), limit)]


def _walk_changes(
    conn: Connection, manifest_id: str | None, path: str
) -> Iterator[tuple[Manifest, bool]]:
    """Yield the versions that changed a path, each with whether it removed the path.

    One query finds them. A version that stores all entries does not say what it changed.
    """
    for row in conn.execute(_build_changes_query(path), {"manifest": manifest_id}):
        is_removed = not row.remains
        if row.is_full:
            before = read_tree(conn, row.parent_id, path)
            changes = compare_trees(before, read_tree(conn, row.id, path))
            if not changes:
                continue
            is_removed = not any(changes.values())
        if (manifest := get_manifest(conn, row.id)) is not None:
            yield manifest, is_removed


def _build_changes_query(path: str) -> Select[Any]:
    """Return the query of versions that may have changed a path, the newest first.

    SQLite gives the rows of a recursion in the order in which it finds them.
    """
    columns = (manifests.c.id, manifests.c.parent_id, manifests.c.is_full)
    chain = select(*columns).where(manifests.c.id == bindparam("manifest"))
    above = chain.cte("above", recursive=True)
    above = above.union_all(select(*columns).where(manifests.c.id == above.c.parent_id))
    at_path = (manifest_entries.c.manifest_id == above.c.id, is_at(path))
    remains = exists().where(*at_path, manifest_entries.c.sha256.is_not(None)).label("remains")
    return select(*above.c, remains).where(or_(above.c.is_full == 1, exists().where(*at_path)))
