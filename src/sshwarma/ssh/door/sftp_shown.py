"""What a client of sftp sees: a room's present files with its own changes."""

from __future__ import annotations

from collections.abc import Callable

from sshwarma.common.limits import MAX_WORKSPACE_BYTES, MAX_WORKSPACE_ENTRIES
from sshwarma.common.shorten import shorten_name
from sshwarma.git.names import is_git_name
from sshwarma.ssh.door.sftp_burst import Burst
from sshwarma.ssh.door.sftp_working import WorkingFile
from sshwarma.ssh.transport.interfaces import SftpAttributes, SftpSpace
from sshwarma.workspaces.folder_index import FolderIndex
from sshwarma.workspaces.tree import FOLDER_MODE, Entry, Tree, apply_changes
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.errors import Conflict, NotFound


class ShownFiles:
    """The files of a room, with those that the client is writing or has changed.

    `refresh` is called before the others.
    """

    def __init__(self, workspaces: Workspaces, room_id: str, on_due: Callable[[], None]) -> None:
        """Show the files of a room; `on_due` is that of its `Burst`."""
        self._workspaces = workspaces
        self._room_id = room_id
        self._index = FolderIndex()
        self._head: Tree = {}
        self._times: dict[str, int] = {}
        self._newest = 0
        self._generation = 0  # of the bursts that have become versions
        self._shown: tuple[str | None, int] | None = None  # version and generation of the index
        self._working: dict[str, WorkingFile] = {}
        self._burst = Burst(workspaces, on_due)

    async def refresh(self) -> None:
        """Show the present version, with the client's own changes."""
        while True:  # again if a burst has become a version meanwhile
            generation = self._generation
            version, head = await self._workspaces.read_tree(self._room_id)
            if (version, generation) == self._shown:
                return
            times = self._times
            if self._shown is None or version != self._shown[0]:
                times = await self._workspaces.read_change_times(self._room_id, head)
            if generation == self._generation:
                break
        self._shown, self._head, self._times = (version, generation), head, times
        self._newest = max(times.values(), default=0)
        shown = apply_changes(head, self._burst.entries)
        for path, working in self._working.items():
            shown.setdefault(path, Entry("", working.mode))
        self._index.update(shown)

    def stat(self, path: str) -> SftpAttributes:
        """Return the attributes of a file or folder.

        Raises:
            NotFound: if nothing is there.
        """
        working = self._working.get(path)
        if working is not None:
            return SftpAttributes(working.mode, working.size, working.opened_at)
        kind = self._index.kind_of(path)
        if kind == "folder":
            return SftpAttributes(FOLDER_MODE | 0o755, 0, self._newest)
        entry = self._index.get(path)
        if kind != "file" or entry is None:
            raise NotFound(f"Nothing is at {shorten_name(path)!r}.")
        changed_at = self._burst.changed_at.get(path) or self._times.get(path, 0)
        return SftpAttributes(entry.mode, entry.size, changed_at)

    def list_folder(self, folder: str) -> dict[str, SftpAttributes]:
        """Return the names in a folder with their attributes.

        Links are left out, and names of git's own folder (`sftp_paths.parse_place`).

        Raises:
            NotFound: if it is no folder.
        """
        if self._index.kind_of(folder) != "folder":
            raise NotFound(f"{shorten_name(folder)!r} is not a folder.")
        paths = {name: f"{folder}/{name}" if folder else name for name in self.list_names(folder)}
        return {
            name: self.stat(path)
            for name, path in paths.items()
            if self._index.kind_of(path) != "link" and not is_git_name(name)
        }

    def list_names(self, folder: str) -> list[str]:
        """Return all names in a folder, those that are not shown too."""
        return self._index.list_names(folder)

    def space(self) -> SftpSpace:
        """Return the room that is left."""
        return SftpSpace(
            MAX_WORKSPACE_BYTES,
            max(0, MAX_WORKSPACE_BYTES - self._count_bytes()),
            MAX_WORKSPACE_ENTRIES,
            max(0, MAX_WORKSPACE_ENTRIES - len(self._index)),
        )

    def find_working(self, path: str) -> WorkingFile | None:
        """Return the file at a path if the client is writing it."""
        return self._working.get(path)

    def find_file(self, path: str) -> Entry:
        """Return the entry of a file.

        Raises:
            NotFound: if nothing is there.
            Conflict: if it is a folder.
        """
        kind = self._index.kind_of(path)
        entry = self._index.get(path)
        if kind == "folder":
            raise Conflict(f"{shorten_name(path)} is a folder.")
        if kind != "file" or entry is None:
            raise NotFound(f"Nothing is at {shorten_name(path)!r}.")
        return entry

    def exists(self, path: str) -> bool:
        """Return whether something is at a path, be it a link."""
        return self._index.kind_of(path) is not None

    def _base_of(self, path: str) -> Entry | None:
        change = self._burst.find(path)
        return self._head.get(path) if change is None else change.entry

    def _count_bytes(self) -> int:
        shown = (self._index.get(path) for path in self._working)
        replaced = sum(entry.size for entry in shown if entry is not None)
        written = sum(working.size for working in self._working.values())
        return self._index.total_bytes - replaced + written
