"""Workspaces: reading and changing the files of rooms.

A change is computed from the present version inside its transaction, so that two changes at the
same time both count. Contents are stored, and on the disk, before the transaction that names them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from cachetools import LRUCache
from sqlalchemy import Connection

from sshwarma.common.finish import run_in_thread
from sshwarma.common.limits import (
    MAX_FILE_BYTES,
    MAX_WORKSPACE_BYTES,
    MAX_WORKSPACE_ENTRIES,
)
from sshwarma.common.locks import hold_lock
from sshwarma.common.shorten import shorten_name
from sshwarma.workspaces import manifests, used_contents
from sshwarma.workspaces.blobs import MIN_GARBAGE_SECONDS, BlobStore
from sshwarma.workspaces.change_kinds import ChangeKind, find_change_kinds
from sshwarma.workspaces.manifests import Manifest, Source
from sshwarma.workspaces.paths import list_parents
from sshwarma.workspaces.tree import (
    Changes,
    Entry,
    Tree,
    apply_changes,
    compare_trees,
    list_folders,
)
from sshwarma.workspaces.tree_edits import unknown_file_error
from sshwarma.world import calls
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.events import FilesChanged
from sshwarma.world.pending_upload import PendingUpload
from sshwarma.world.store import Change
from sshwarma.world.world import World

ENTRY_BYTES: Final = 200
"""Bytes that an entry of a version takes in the database, besides its path, twice."""

MAX_CACHED_ENTRIES: Final = 100_000
"""Entries of all cached trees together; a full workspace has a tenth of them."""

Edit = Callable[[Tree], Changes]
"""Returns what to change of a tree; raises WorldError to refuse."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that was made: the version and what it changed.

    Attributes:
        kinds: what it did at each of the changed paths.
    """

    manifest: Manifest
    changes: Changes
    kinds: Mapping[str, ChangeKind]


class Workspaces:
    """The files of all rooms of a world."""

    def __init__(self, world: World, blobs: BlobStore) -> None:
        """Use the versions in a world and the blobs beside it."""
        self._world = world
        self.blobs = blobs
        self._trees: LRUCache[str, Tree] = LRUCache(
            MAX_CACHED_ENTRIES, getsizeof=lambda tree: len(tree) + 1
        )
        self._trees_lock = threading.Lock()  # the writer and readers are threads
        self._long_reads: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def take_long_read(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Wait for other searches and comparisons of a person: they take threads."""
        person_id = caller.person_id or caller.agent.id
        lock = self._long_reads.setdefault(person_id, asyncio.Lock())
        tell = caller.on_progress or (lambda _: None)
        return hold_lock(lock, tell, "Waiting for another search or comparison of yours.")

    async def read_tree(self, room_id: str) -> tuple[str | None, Tree]:
        """Return the id of the present version of a room's files, and its entries."""
        return await self._world.store.read(lambda conn: self.get_active(conn, room_id))

    async def read_change_times(self, room_id: str, tree: Tree) -> dict[str, int]:
        """Return when the paths of a room's tree changed last, in seconds since 1970."""
        return await self._world.store.read(
            lambda conn: manifests.read_change_times(conn, room_id, tree)
        )

    async def read_last_changes(
        self, room_id: str, tree: Tree
    ) -> dict[str, tuple[str, str | None]]:
        """Return when the paths of a room's tree changed last, and by which agent."""
        return await self._world.store.read(
            lambda conn: manifests.read_last_changes(conn, room_id, tree)
        )

    async def read_version(self, room_id: str, version: str) -> tuple[Manifest, Tree]:
        """Return a version of a room's files, by its id or the end of it.

        Raises:
            NotFound: if no version matches, or several do.
        """

        def read(conn: Connection) -> tuple[Manifest, Tree]:
            manifest = manifests.find_manifest(conn, room_id, version)
            return manifest, self.get_tree(conn, manifest.id)

        return await self._world.store.read(read)

    def get_active(self, conn: Connection, room_id: str) -> tuple[str | None, Tree]:
        """Return the id and entries of the present version, in a transaction."""
        manifest_id = manifests.read_active_id(conn, room_id)
        return manifest_id, self.get_tree(conn, manifest_id)

    def get_tree(self, conn: Connection, manifest_id: str | None) -> Tree:
        """Return the entries of a version; those of a cached one are not read again."""
        if manifest_id is None:
            return {}
        with self._trees_lock:
            tree = self._trees.get(manifest_id)
        if tree is None:
            tree = manifests.read_tree(conn, manifest_id)
            with self._trees_lock:
                self._remember(manifest_id, tree)
        return tree

    async def read_last_run(self, version_id: str | None) -> dict[str, ChangeKind]:
        """Return what the newest run of a tool up to a version did, by path."""

        def read(conn: Connection) -> dict[str, ChangeKind]:
            run = manifests.find_last_run(conn, version_id)
            if run is None:
                return {}
            before = self.get_tree(conn, run.parent_id)
            changes = compare_trees(before, self.get_tree(conn, run.id))
            return find_change_kinds(before, changes)

        return await self._world.store.read(read)

    def _remember(self, manifest_id: str, tree: Tree) -> None:
        if len(tree) < MAX_CACHED_ENTRIES:
            self._trees[manifest_id] = tree

    async def store(self, data: bytes) -> Entry:
        """Store a content, on the disk; return the entry of a file with it."""

        def write() -> str:
            sha256 = self.blobs.store(data)
            self.blobs.sync()
            return sha256

        return Entry(await asyncio.to_thread(write), size=len(data))

    async def finish_upload(self, upload: PendingUpload) -> Entry:
        """Store an uploaded content, on the disk; return the entry of its file.

        To its end, also if that is stopped: the caller deletes what was uploaded afterwards.
        """

        def write() -> str:
            sha256 = upload.finish()
            self.blobs.sync()
            return sha256

        return Entry(await run_in_thread(lambda _: write()), size=upload.size)

    async def read(self, entry: Entry) -> bytes:
        """Return the content of an entry.

        Raises:
            DamagedBlob: if it is missing, or is not what its hash says.
        """
        return await asyncio.to_thread(self.blobs.read, entry.sha256)

    def copy_files(self, tx: Change, source_id: str, room_id: str, author_id: str) -> None:
        """Give a new room the files of another, as its first version."""
        source_version, tree = self.get_active(tx.conn, source_id)
        if not tree:
            return
        manifests.append_manifest(
            tx,
            room_id,
            {},
            tree,
            source="branch",
            source_ref=source_version,
            author_id=author_id,
        )

    async def find_unused(self) -> dict[str, int]:
        """Return the sizes of old contents that no version names, by their hash."""
        used = await self._read_used()

        def find() -> dict[str, int]:
            oldest = time.time() - MIN_GARBAGE_SECONDS
            return {
                sha256: size
                for sha256, size, used_at in self.blobs.list_stored()
                if sha256 not in used and used_at <= oldest
            }

        return await asyncio.to_thread(find)

    async def delete_unused(self) -> int:
        """Delete the old contents that no version names; return their bytes."""
        used = await self._read_used()
        return await asyncio.to_thread(self.blobs.sweep, used)

    async def _read_used(self) -> set[str]:
        """Return the hashes that are held, or that a world here or a copy names."""
        used = set(self.blobs.held)  # first: one is released when a version names it
        used |= await self._world.store.read(used_contents.read_used_hashes)
        copies = sorted(self.blobs.directory.parent.glob("world-*.db"))
        for copy in copies:
            used |= (await asyncio.to_thread(used_contents.read_sizes_in_file, copy)).keys()
        return used

    async def change(
        self,
        caller: Caller,
        edit: Edit,
        notice: Callable[[Changed], str] | None = None,
        *,
        source: Source = "edit",
        source_ref: str | None = None,
    ) -> Changed:
        """Change the files of the caller's room, as one version.

        `notice` is the notice in the room, of the change: "changed plan.md". A change by a call of
        a tool has none, because its row is there, and belongs to the call, also as its source.

        What the version itself takes, its rows, counts for the agent as bytes that it stores.

        Raises:
            NothingChanges: if nothing does.
            Conflict: if the workspace would become too large.
            RateLimited: if the agent has stored too much in the last hour.
        """
        caller.charge_file_volume(0)
        stack = caller.call_stack
        call_id = stack.row_id if stack is not None else None
        turn_id = stack.turn_id if stack is not None else None

        def work(tx: Change) -> Changed:
            before_id = manifests.read_active_id(tx.conn, caller.room_id)
            changed = self.change_in(
                tx,
                caller.room_id,
                edit,
                source=source if call_id is None else "tool_run",
                source_ref=source_ref if call_id is None else call_id,
                author_id=caller.agent.id,
                turn_id=turn_id,
            )
            if call_id is not None:
                calls.record_manifests(tx, call_id, turn_id, before_id, changed.manifest.id)
            elif notice is not None:
                caller.append_notice(tx, notice(changed))
            return changed

        changed = await caller.change(work)
        size = sum(ENTRY_BYTES + 2 * len(path) for path in changed.changes)
        caller.charge_file_volume(size, is_stored=True)
        return changed

    def change_in(
        self,
        tx: Change,
        room_id: str,
        edit: Edit,
        *,
        source: Source,
        source_ref: str | None = None,
        author_id: str | None = None,
        turn_id: str | None = None,
    ) -> Changed:
        """Change the files of a room in a transaction.

        Raises:
            NothingChanges: if nothing does.
            Conflict: if the workspace would become too large.
        """
        _, before = self.get_active(tx.conn, room_id)
        changes = {
            path: entry
            for path, entry in complete_changes(before, edit(before)).items()
            if before.get(path) != entry
        }
        after = apply_changes(before, changes)
        check_tree_size(before, after)
        manifest = manifests.append_manifest(
            tx,
            room_id,
            before,
            changes,
            source=source,
            source_ref=source_ref,
            author_id=author_id,
            turn_id=turn_id,
        )
        tx.publish_on_commit(FilesChanged(room_id, manifest.id, tuple(changes)))
        return Changed(manifest, changes, find_change_kinds(before, changes))


def complete_changes(before: Tree, changes: Changes) -> dict[str, Entry | None]:
    """Return the changes with those that follow from them.

    An empty folder loses its entry when something is put in it. A folder keeps none when it loses
    its last file: it is gone, as in git.

    Raises:
        Conflict: if a file would be at the path of a folder, or below one of a file.
    """
    completed = dict(changes)
    after = apply_changes(before, changes)
    folders = {folder for path in after for folder in list_parents(path)}
    for path, entry in changes.items():
        if entry is None:
            continue
        if path in folders and not entry.is_folder:
            raise Conflict(f"{shorten_name(path)} is a folder.")
        for folder in list_parents(path):
            above = after.get(folder)
            if above is not None and not above.is_folder:
                raise Conflict(f"{shorten_name(folder)} is a file, not a folder.")
    for path, entry in after.items():
        if entry.is_folder and path in folders:
            completed[path] = None
    return completed


def check_file_size(size: int, *, is_whole: bool = True) -> None:
    """Raise unless a file may have that many bytes.

    Args:
        size: the bytes.
        is_whole: whether they are all; if not, more would have come.

    Raises:
        Invalid: if it is too large.
    """
    if size > MAX_FILE_BYTES:
        got = f"got {size:,}" if is_whole else "it is larger"
        raise Invalid(f"A file may have at most {MAX_FILE_BYTES:,} bytes ({got}).")


def check_tree_size(before: Tree, after: Tree) -> None:
    """Raise if a workspace would become too large; one that shrinks is never refused.

    Raises:
        Conflict: if it would have too many entries or bytes.
    """
    if len(after) > max(MAX_WORKSPACE_ENTRIES, len(before)):
        raise Conflict(
            f"A workspace has at most {MAX_WORKSPACE_ENTRIES:,} files:"
            f" this would be {len(after):,}."
        )
    total, old_total = count_bytes(after), count_bytes(before)
    if total > max(MAX_WORKSPACE_BYTES, old_total):
        raise Conflict(
            f"A workspace has at most {MAX_WORKSPACE_BYTES:,} bytes: this would be {total:,}."
        )


def count_bytes(tree: Tree) -> int:
    """Return the bytes of all files of a tree; equal files count each."""
    return sum(entry.size for entry in tree.values())


def find_entry(tree: Tree, path: str, *, where: str = "") -> Entry:
    """Return what is at a path.

    Raises:
        NotFound: if nothing is there, with near paths.
        Conflict: if it is a folder.
    """
    entry = tree.get(path)
    if entry is None and path not in list_folders(tree):
        raise unknown_file_error(tree, path, where)
    if entry is None or entry.is_folder:
        raise Conflict(f"{shorten_name(path)} is a folder.")
    return entry
