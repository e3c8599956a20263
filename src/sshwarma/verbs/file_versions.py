"""The verbs of `/file` on versions: history, version, diff, restore."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from sqlalchemy import Connection

from sshwarma.common.finish import run_in_thread
from sshwarma.common.limits import (
    DEFAULT_LISTED_VERSIONS,
    MAX_COMPARED_BYTES,
    MAX_COMPARED_FILES,
    MAX_NAMED_FILES,
)
from sshwarma.services import services_of
from sshwarma.verbs.arguments import RowNumber
from sshwarma.verbs.file import file
from sshwarma.verbs.file_arguments import FilePath, FileVersion, VersionCount
from sshwarma.verbs.file_changes import report_change
from sshwarma.verbs.file_version_views import (
    FileDiff,
    FileDiffItem,
    FileHistory,
    FileVersionContents,
    FileVersionItem,
)
from sshwarma.verbs.file_views import FileChange
from sshwarma.verbs.log_rows import unknown_row_error
from sshwarma.verbs.rights import FILES_RIGHT
from sshwarma.verbs.views import format_count
from sshwarma.workspaces import manifests
from sshwarma.workspaces.blobs import DamagedBlob
from sshwarma.workspaces.change_kinds import ChangeKind, find_change_kinds, read_change_kinds
from sshwarma.workspaces.damaged_files import naming_damaged_file
from sshwarma.workspaces.history import list_manifests
from sshwarma.workspaces.manifests import Manifest
from sshwarma.workspaces.paths import parse_path
from sshwarma.workspaces.row_versions import find_call_of_version, find_version_of_row
from sshwarma.workspaces.text_diff import compare_contents
from sshwarma.workspaces.tree import Changes, Entry, Tree, compare_trees
from sshwarma.workspaces.workspace import Workspaces, find_entry
from sshwarma.world import rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound


@file.verb(
    "history",
    needs=Right.ENTER,
    tool=False,
    examples=("/file history", "/file history plan.md", "/file history plan.md --n 50"),
)
async def list_file_versions(
    caller: Caller,
    path: FilePath | None = None,
    *,
    n: VersionCount = DEFAULT_LISTED_VERSIONS,
    before: FileVersion | None = None,
) -> FileHistory:
    """List the versions of this room's files.

    Args:
        path: only versions in which this file or folder changed.
        n: number of versions (default {DEFAULT_LISTED_VERSIONS}).
        before: only versions before this one.
    """
    name = parse_path(path) if path is not None else ""

    def read(conn: Connection) -> list[FileVersionItem]:
        newest = manifests.read_active_id(conn, caller.room_id)
        if before is not None:
            newest = manifests.find_manifest(conn, caller.room_id, before).parent_id
        return [
            _version_item(conn, caller, manifest, removed)
            for manifest, removed in list_manifests(conn, newest, n, name)
        ]

    items = await caller.world.store.read(read)
    if name and not items and before is None:
        _, tree = await services_of(caller).workspaces.read_tree(caller.room_id)
        find_entry(tree, name)
    return FileHistory((await caller.room()).name, name, tuple(items))


@file.verb(
    "version",
    needs=Right.ENTER,
    tool=False,
    examples=("/file version", "/file version 1f03ac", "/file version --message 42"),
    excludes={"message": ("version",)},
)
async def show_file_version(
    caller: Caller, version: FileVersion | None = None, *, message: RowNumber | None = None
) -> FileVersionContents:
    """Show what made a version, and the hash of each file in it.

    For people:
        /file history lists versions.

    Args:
        version: the version, by its id or the end of it (default: the present one).
        message: row number of a message or call, as the room shows it: the version that it left.
    """
    workspaces = services_of(caller).workspaces

    def find(conn: Connection) -> Manifest:
        if message is not None:
            at = rows.read_numbered(conn, caller.room_id, message)
            if at is None:
                raise unknown_row_error(message)
            return find_version_of_row(conn, at)
        name = version or manifests.read_active_id(conn, caller.room_id)
        if name is None:
            raise NotFound("This room has no files yet.")
        return manifests.find_manifest(conn, caller.room_id, name)

    def read(conn: Connection) -> tuple[FileVersionItem, str | None, Tree]:
        found = find(conn)
        item = _version_item(conn, caller, found, removed=False)
        return item, found.parent_id, workspaces.get_tree(conn, found.id)

    item, parent_id, tree = await caller.world.store.read(read)
    files = {path: entry.sha256 for path, entry in sorted(tree.items()) if not entry.is_folder}
    return FileVersionContents((await caller.room()).name, item, parent_id, files)


@file.verb(
    "diff",
    needs=Right.ENTER,
    tool=False,
    examples=("/file diff", "/file diff plan.md", "/file diff --old 1f03ac --new 77aa01"),
    excludes={"other": ("old", "new")},
)
async def compare_files(
    caller: Caller,
    path: FilePath | None = None,
    *,
    old: FileVersion | None = None,
    new: FileVersion | None = None,
    other: FilePath | None = None,
) -> FileDiff:
    """Compare two versions of this room's files.

    Args:
        path: only this file or folder.
        old: the older version (default: the one before the newer, or before the last change of
            the path).
        new: the newer version (default: the present one).
        other: another present file, which the file is compared with instead.
    """
    workspaces = services_of(caller).workspaces
    name = parse_path(path) if path is not None else ""
    if other is not None:
        return await _compare_two_files(caller, name, parse_path(other, "other"))

    def read(conn: Connection) -> tuple[str, Tree, str, Tree]:
        if new is None:
            new_id = manifests.read_active_id(conn, caller.room_id)
        else:
            new_id = manifests.find_manifest(conn, caller.room_id, new).id
        if old is not None:
            old_id: str | None = manifests.find_manifest(conn, caller.room_id, old).id
        else:
            last = next(iter(list_manifests(conn, new_id, 1, name)), None)
            old_id = last[0].parent_id if last else None
        return (
            old_id or "",
            workspaces.get_tree(conn, old_id),
            new_id or "",
            workspaces.get_tree(conn, new_id),
        )

    old_id, old_tree, new_id, new_tree = await caller.world.store.read(read)
    differences = compare_trees(old_tree, new_tree)
    kinds = find_change_kinds(old_tree, differences)
    changes = {
        changed: entry
        for changed, entry in differences.items()
        if not name or changed == name or changed.startswith(f"{name}/")
    }
    if name and not changes:
        find_entry({**old_tree, **new_tree}, name)
    room, ids = (await caller.room()).name, (old_id, new_id)
    async with workspaces.take_long_read(caller):
        items = []
        for changed, entry in list(changes.items())[:MAX_COMPARED_FILES]:
            naming = [naming_damaged_file(changed, room, version) for version in ids]
            sides = old_tree.get(changed), entry
            items.append(await _compare_at(workspaces, changed, kinds[changed], *sides, naming))
    return FileDiff(old_id, new_id, len(changes), tuple(items))


@file.verb(
    "restore",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool=False,
    examples=("/file restore 1f03ac", "/file restore 1f03ac plan.md"),
)
async def restore_files(
    caller: Caller, version: FileVersion, path: FilePath | None = None
) -> FileChange:
    """Bring back the files of an earlier version.

    Makes a new version: what is there now can be brought back, too.

    For people:
        /file history lists versions.

    Args:
        version: the version, by its id or the end of it.
        path: only this file or folder (default: all files).
    """
    workspaces = services_of(caller).workspaces
    name = parse_path(path) if path is not None else ""
    manifest, tree = await workspaces.read_version(caller.room_id, version)

    def is_wanted(one: str) -> bool:
        return not name or one == name or one.startswith(f"{name}/")

    wanted = {one: entry for one, entry in tree.items() if is_wanted(one)}
    if name and not wanted:
        raise NotFound(f"{name} is not in version {manifest.short_id}.")

    def edit(present: Tree) -> Changes:
        now = {one: entry for one, entry in present.items() if is_wanted(one)}
        changes = compare_trees(now, wanted)
        if not changes:
            raise Conflict(f"{name or 'Every file'} is as in version {manifest.short_id} already.")
        return changes

    of = name or "the files"
    changed = await workspaces.change(
        caller,
        edit,
        lambda _: f"restored {of} of version {manifest.short_id}",
        source_ref=manifest.id,
    )
    count = format_count(len(changed.changes), "file")
    return report_change(f"Restored {of} of version {manifest.short_id}: {count} changed.", changed)


def _version_item(
    conn: Connection, caller: Caller, manifest: Manifest, removed: bool
) -> FileVersionItem:
    changes = manifests.read_changed_paths(conn, manifest)
    named = tuple(changes)[:MAX_NAMED_FILES]
    tool, row = find_call_of_version(conn, manifest) or ("", None)
    return FileVersionItem(
        manifest.id,
        manifest.created_at,
        caller.world.agents.name_of(manifest.author_id),
        manifest.source,
        manifest.source_ref,
        len(changes),
        named,
        read_change_kinds(conn, manifest, changes, named),
        manifest.entry_count,
        manifest.total_bytes,
        tool,
        row,
        removed,
    )


async def _compare_two_files(caller: Caller, path: str, other: str) -> FileDiff:
    """Compare two present files.

    Raises:
        Invalid: if only one is named.
        NotFound: if one does not exist.
    """
    if not path:
        raise Invalid("path: must be given with other.")
    workspaces = services_of(caller).workspaces
    version, tree = await workspaces.read_tree(caller.room_id)
    room, label = (await caller.room()).name, f"{path} → {other}"
    first, second = find_entry(tree, path), find_entry(tree, other)
    naming = [naming_damaged_file(one, room, version) for one in (path, other)]
    async with workspaces.take_long_read(caller):
        item = await _compare_at(workspaces, label, "changed", first, second, naming)
    is_same = first.sha256 == second.sha256
    return FileDiff(version or "", version or "", int(not is_same), () if is_same else (item,))


async def _compare_at(
    workspaces: Workspaces,
    path: str,
    change: ChangeKind,
    old: Entry | None,
    new: Entry | None,
    naming_damage: Sequence[AbstractContextManager[None]],
) -> FileDiffItem:
    """Compare a file of two versions; a damaged content is a note.

    `naming_damage` names the file of each version in the refusal of its content.
    """
    if max(old.size if old else 0, new.size if new else 0) > MAX_COMPARED_BYTES:
        return FileDiffItem(path, change, "", f"More than {MAX_COMPARED_BYTES:,} bytes.")
    contents = []
    try:
        for entry, naming in zip((old, new), naming_damage, strict=True):
            with naming:
                contents.append(await workspaces.read(entry) if entry and entry.sha256 else b"")
    except DamagedBlob as error:
        return FileDiffItem(path, change, "", error.message)
    found = await run_in_thread(lambda _: compare_contents(*contents))
    note = found.note
    if old is not None and new is not None and old.mode != new.mode and not found.text:
        note = f"mode {old.mode:o} → {new.mode:o}"
    return FileDiffItem(path, change, found.text, note)
