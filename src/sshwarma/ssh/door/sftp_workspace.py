"""The files of one room as one client of sftp changes them.

Files that the client is writing are there from their opening on. What it has closed gathers in a
burst. Nobody else sees either before the burst is a version.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Final

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import (
    MAX_WORKSPACE_BYTES,
    MAX_WORKSPACE_ENTRIES,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import MIB
from sshwarma.git.names import is_git_name
from sshwarma.ssh.door.sftp_shown import ShownFiles
from sshwarma.ssh.door.sftp_working import WorkingFile
from sshwarma.ssh.transport.interfaces import SftpChanges, SftpOpenMode
from sshwarma.workspaces.tree import (
    EMPTY_FOLDER,
    FILE_MODE,
    PROGRAM_MODE,
    Entry,
)
from sshwarma.workspaces.workspace import Workspaces, check_file_size
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound, WorldError

CHARGED_BYTES: Final = MIB
"""Bytes by which a file grows until they are counted; the rest is, when it is closed."""


@contextlib.contextmanager
def _failing(working: WorkingFile) -> Iterator[None]:
    """Keep nothing of a file if a part of it cannot be written."""
    try:
        yield
    except WorldError as error:
        working.fail(error)
        raise


class RoomFiles(ShownFiles):
    """The files of one room for one client.

    The rights are checked, and `refresh` is called, before every method but `commit` and `discard`.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        room_id: str,
        find_caller: Callable[[], Awaitable[Caller]],
        tell: Callable[[str], None],
        background: BackgroundTasks,
    ) -> None:
        """Show the files of a room.

        `find_caller` returns who may change them now, `tell` tells the person something.
        """
        super().__init__(workspaces, room_id, self._on_due)
        self._find_caller = find_caller
        self._tell = tell
        self._background = background
        self._committing = asyncio.Lock()

    def open_to_write(self, path: str, mode: SftpOpenMode) -> WorkingFile:
        """Begin to write a file; one that the client is writing already is shared.

        Raises:
            NotFound: if there is no file and the client does not make one, or no folder above it.
            Conflict: if something else is there, or the room has no place for another file.
        """
        working = self._working.get(path)
        if working is None:
            if self.exists(path):
                if self._index.kind_of(path) == "link":
                    raise Conflict(f"{shorten_name(path)} is a link.")
                present = None if mode.truncates else self.find_file(path)
            elif not mode.creates:
                raise NotFound(f"Nothing is at {shorten_name(path)!r}.")
            else:
                self._check_parent(path)
                self._check_count()
                present = None
            if self._index.kind_of(path) == "folder":
                raise Conflict(f"{shorten_name(path)} is a folder.")
            was_there = self.exists(path)
            working = WorkingFile(self._workspaces, path, self._base_of(path), present)
            entry = self._index.get(path)
            if entry is not None:
                working.mode = entry.mode
            elif mode.permissions is not None:
                working.set_permissions(mode.permissions)
            self._working[path] = working
            if not was_there:
                self._index.set(path, Entry("", working.mode))
        self._burst.touch()
        return working

    async def write(self, working: WorkingFile, offset: int, data: bytes) -> None:
        """Write a part, if its room has the place.

        Raises:
            WorldError: with the reason; then nothing of the file will be kept.
        """
        with _failing(working):
            self._check_growth(working, offset + len(data))
            await self._charge(working, offset + len(data))
            await working.write(offset, data)
        self._burst.touch()

    async def truncate(self, working: WorkingFile, size: int) -> None:
        """Make a file that long.

        Raises:
            WorldError: with the reason; then nothing of the file will be kept.
        """
        with _failing(working):
            self._check_growth(working, size)
            await self._charge(working, size)
            await working.truncate(size)
        self._burst.touch()

    async def close(self, working: WorkingFile, caller: Caller | None) -> None:
        """Keep what was written, if nothing of it is missing; without a caller drop it.

        Raises:
            WorldError: if it is not kept, with the reason.
        """
        path = working.path
        if path is not None:
            del self._working[path]
        try:
            if path is None or caller is None or not (working.is_changed or working.failure):
                self._show(path)
                return
            if working.failure:
                raise Conflict(f"{shorten_name(path)} was not stored: {working.failure}")
            caller.charge_file_volume(max(0, working.size - working.charged))
            entry = await working.store()
        except WorldError:
            self._show(path)
            raise
        self._add(path, working.base, entry)

    def _show(self, path: str | None) -> None:
        """Show what is at a path without the file that was being written."""
        if path is not None:
            change = self._burst.find(path)
            self._index.set(path, self._head.get(path) if change is None else change.entry)
            self._keep_parent(path)

    async def set_attributes(self, path: str, changes: SftpChanges, caller: Caller) -> None:
        """Set the size of a file, or whether it is a program.

        Raises:
            WorldError: if it is refused.
        """
        if changes.size is None and self._index.kind_of(path) == "folder":
            return  # folders have no mode of their own
        working = self._working.get(path)
        if changes.size is not None:
            opened = working or self.open_to_write(path, SftpOpenMode(writes=True))
            try:
                await self.truncate(opened, changes.size)
            finally:
                if working is None:
                    await self._close_at_once(opened, caller)
        if changes.permissions is None:
            return
        if working is not None:
            working.set_permissions(changes.permissions)
            return
        entry = self.find_file(path)
        mode = PROGRAM_MODE if changes.permissions & 0o100 else FILE_MODE
        if entry.mode != mode:
            self._change(path, replace(entry, mode=mode))

    async def _close_at_once(self, opened: WorkingFile, caller: Caller) -> None:
        try:
            await self.close(opened, None if opened.failure else caller)
        finally:
            opened.close()

    def make_folder(self, path: str) -> None:
        """Make an empty folder.

        Raises:
            Conflict: if something is there, or the room has no place for it.
            NotFound: if there is no folder above it.
        """
        if self.exists(path):
            raise Conflict(f"{shorten_name(path)} already exists.")
        self._check_parent(path)
        self._check_count()
        self._change(path, EMPTY_FOLDER)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder.

        Raises:
            Conflict: if it is not empty, or the top of the workspace.
            NotFound: if it is no folder.
        """
        if self._index.kind_of(path) != "folder":
            raise NotFound(f"{shorten_name(path)!r} is not a folder.")
        if not path:
            raise Conflict("The workspace of a room cannot be removed.")
        if names := self.list_names(path):
            hidden = ", ".join(sorted(filter(is_git_name, names)))
            also = f" sftp does not show {hidden} in it." if hidden else ""
            raise Conflict(f"{shorten_name(path)} is not empty.{also}")
        self._change(path, None)

    def remove(self, path: str) -> None:
        """Remove a file; one that is being written is dropped.

        Raises:
            NotFound: if nothing is there.
            Conflict: if it is a folder.
        """
        self.find_file(path)
        working = self._working.pop(path, None)
        if working is not None:
            working.path = None
            self._show(path)
            if not self.exists(path):
                return
        self._change(path, None)

    def rename(self, old: str, new: str, *, replaces: bool) -> None:
        """Move a file, or a folder with all that is in it.

        Raises:
            NotFound: if nothing is at the old path, or no folder above the new one.
            Conflict: if something is at the new path that it may not replace.
        """
        kind = self._index.kind_of(old)
        if kind is None or not old:
            raise NotFound(f"Nothing is at {shorten_name(old)!r}.")
        if new == old:
            return
        if new.startswith(f"{old}/"):
            raise Conflict("A folder cannot be moved into itself.")
        self._check_parent(new)
        target = self._index.kind_of(new)
        if target is not None:
            is_empty = target == "folder" == kind and not self.list_names(new) and new
            if not replaces or not (target == "file" == kind or is_empty):
                raise Conflict(f"{shorten_name(new)} already exists.")
            self._drop_working(new)
        moved = [old] if old in self._index and self._index.get(old) is not None else []
        moved += self._index.find_below(old)
        found = {path: self._index.get(path) for path in moved}
        for path, entry in found.items():
            to = new + path[len(old) :]
            working = self._working.pop(path, None)
            if working is not None:
                working.path, working.base = to, self._base_of(to)
                working.is_changed = True
                self._working[to] = working
            if working is not None and self._is_unfinished(path):
                self._index.set(path, None)
                self._index.set(to, entry)
            else:
                self._change(path, None, keeps_parent=False)
                self._change(to, entry)
        self._keep_parent(old)

    def _drop_working(self, path: str) -> None:
        working = self._working.pop(path, None)
        if working is not None:
            working.path = None

    def _is_unfinished(self, path: str) -> bool:
        """Return whether only a file that is being written is at a path."""
        change = self._burst.find(path)
        return (self._head.get(path) if change is None else change.entry) is None

    def _change(self, path: str, entry: Entry | None, *, keeps_parent: bool = True) -> None:
        """Change what is at a path now."""
        self._add(path, self._base_of(path), entry)
        if entry is None and keeps_parent:
            self._keep_parent(path)

    def _add(self, path: str, base: Entry | None, entry: Entry | None) -> None:
        """Add a change to the burst, and show it."""
        parent = path.rpartition("/")[0]
        self._burst.add(path, base, entry)
        self._index.set(path, entry)
        above = self._index.get(parent)
        if entry is not None and above is not None and above.is_folder:
            self._change(parent, None)  # it is not empty any more

    def _keep_parent(self, path: str) -> None:
        """Keep the folder of what is gone: a client removes it by itself."""
        parent = path.rpartition("/")[0]
        if parent and not self.exists(parent):
            self._change(parent, EMPTY_FOLDER)

    # Limits

    def _check_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if self._index.kind_of(parent) != "folder":
            raise NotFound(f"There is no folder {shorten_name(parent)!r}.")

    def _check_count(self) -> None:
        if len(self._index) >= MAX_WORKSPACE_ENTRIES:
            raise Conflict(f"A workspace has at most {MAX_WORKSPACE_ENTRIES:,} files.")

    async def _charge(self, working: WorkingFile, size: int) -> None:
        """Count what a file grows by, whether it is kept or not.

        Raises:
            WorldError: if the agent has stored too much in the last hour, or may not write.
        """
        if size - working.charged >= CHARGED_BYTES:
            (await self._find_caller()).charge_file_volume(size - working.charged)
            working.charged = size

    def _check_growth(self, working: WorkingFile, size: int) -> None:
        if working.failure:
            raise Conflict(working.failure)
        check_file_size(size, is_whole=False)
        growth = max(0, size - working.size)
        total = self._count_bytes() + growth
        if growth and total > MAX_WORKSPACE_BYTES:
            raise Conflict(
                f"A workspace has at most {MAX_WORKSPACE_BYTES:,} bytes: this would be {total:,}."
            )

    # Ending

    def _on_due(self) -> None:
        self._background.spawn(self.commit(), name="sftp burst")

    def discard(self) -> None:
        """Drop every file that is still being written."""
        for working in self._working.values():
            working.path = None
            working.close()
        self._working.clear()

    async def commit(self) -> None:
        """Make a version of the changes that have gathered; tell what is refused."""
        async with self._committing:
            try:
                await self._burst.commit(self._find_caller, self._tell)
            finally:
                self._generation += 1
