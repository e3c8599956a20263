"""The version of files that belongs to a row of the log, and the other way round."""

from __future__ import annotations

from sqlalchemy import Connection, select

from sshwarma.common.times import format_iso
from sshwarma.workspaces.manifests import Manifest, get_manifest
from sshwarma.world.errors import NotFound
from sshwarma.world.row import Row
from sshwarma.world.schema import manifests, rows, tool_calls


def find_version_of_row(conn: Connection, row: Row) -> Manifest:
    """Return the version of a room's files as an entry of its log left them.

    That of a call of a tool is the one after the call; that of another entry is the newest that
    was made before it.

    Raises:
        NotFound: if there was none yet.
    """
    columns = tool_calls.c
    after = select(columns.post_manifest_id).where(columns.id.in_((row.id, row.parent_row_id)))
    found = conn.execute(after).scalars().first()
    if found is None:
        before = select(manifests.c.id).where(
            manifests.c.room_id == row.room_id,
            manifests.c.created_at <= format_iso(row.created_at),
        )
        found = conn.execute(before.order_by(manifests.c.id.desc()).limit(1)).scalar()
    manifest = get_manifest(conn, found) if found is not None else None
    if manifest is None:
        raise NotFound(f"This room had no files at row {row.seq}.")
    return manifest


def find_call_of_version(conn: Connection, manifest: Manifest) -> tuple[str, int] | None:
    """Return the tool whose call made a version, and the row number of the call.

    None if no call made it: a command of a person has none.
    """
    if manifest.source != "tool_run" or manifest.source_ref is None:
        return None
    query = (
        select(tool_calls.c.tool_id, rows.c.seq)
        .join(rows, rows.c.id == tool_calls.c.id)
        .where(tool_calls.c.id == manifest.source_ref)
    )
    found = conn.execute(query).first()
    return (found.tool_id, found.seq) if found is not None else None
