"""Contents that versions of files, toolsets and pushes name, for cleanups."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, select, union

from sshwarma.common.read_only_database import opened_read_only
from sshwarma.workspaces.blobs import SHA256
from sshwarma.world.schema import git_pushes, manifest_entries, toolset_files


def read_used_hashes(conn: Connection) -> set[str]:
    """Return the hashes that any version of files, a push or a toolset names."""
    query = union(
        select(manifest_entries.c.sha256),
        select(git_pushes.c.pack_sha256),
        select(toolset_files.c.sha256),
    )
    return {sha256 for (sha256,) in conn.execute(query) if sha256}


def read_used_sizes(conn: Connection) -> dict[str, int]:
    """Return the sizes of the contents that a world names, by hash.

    Raises:
        ValueError: if it names something that is no hash.
    """
    query = union(
        select(manifest_entries.c.sha256, manifest_entries.c.size),
        select(git_pushes.c.pack_sha256, git_pushes.c.pack_size),
        select(toolset_files.c.sha256, toolset_files.c.size),
    )
    found = [(name, int(size)) for name, size in conn.execute(query) if name]
    if any(not SHA256.fullmatch(name) for name, _ in found):
        raise ValueError("a file has an invalid hash")
    return dict(found)


def read_sizes_in_file(database: Path) -> dict[str, int]:
    """Return the sizes of the contents that a database file names, by their hash.

    A database from before there were files names none.

    Raises:
        sqlite3.DatabaseError: if it is damaged, or names something that is no hash.
    """
    with opened_read_only(database) as opened:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        names = {name for (name,) in opened.execute(tables)}
        if "manifest_entries" not in names:
            return {}
        query = (
            "SELECT sha256, size FROM manifest_entries WHERE sha256 <> ''"
            " UNION SELECT sha256, size FROM toolset_files"
        )
        if "git_pushes" in names:
            query += " UNION SELECT pack_sha256, pack_size FROM git_pushes"
        found = opened.execute(query).fetchall()
    if any(not (isinstance(name, str) and SHA256.fullmatch(name)) for name, _ in found):
        raise sqlite3.DatabaseError("a file has an invalid hash")
    return {name: int(size) for name, size in found}
