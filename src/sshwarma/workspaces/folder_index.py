"""A tree by folders, with the sum of its sizes, kept up to date by change."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sshwarma.workspaces.tree import Entry, Tree

Kind: TypeAlias = Literal["file", "folder", "link"]


class FolderIndex:
    """The entries of a tree by folder; "" is the tree itself."""

    def __init__(self) -> None:
        """Begin with an empty tree."""
        self._tree: dict[str, Entry] = {}
        self._children: dict[str, set[str]] = {"": set()}  # names of files and folders
        self.total_bytes = 0
        """The sum of the sizes of all entries."""

    def __len__(self) -> int:
        return len(self._tree)

    def __contains__(self, path: str) -> bool:
        return path in self._tree or path in self._children

    def get(self, path: str) -> Entry | None:
        """Return the entry at a path; None for a folder that is not empty."""
        return self._tree.get(path)

    def kind_of(self, path: str) -> Kind | None:
        """Return what is at a path; None if nothing is."""
        if path in self._children:
            return "folder"
        entry = self._tree.get(path)
        if entry is None:
            return None
        return "folder" if entry.is_folder else "link" if entry.is_link else "file"

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order."""
        return sorted(self._children.get(folder, ()))

    def find_below(self, folder: str) -> list[str]:
        """Return the paths of all entries in a folder and its subfolders."""
        found: list[str] = []
        waiting = [folder]
        while waiting:
            above = waiting.pop()
            for name in self._children.get(above, ()):
                path = f"{above}/{name}" if above else name
                if path in self._children:
                    waiting.append(path)
                if path in self._tree:
                    found.append(path)
        return found

    def set(self, path: str, entry: Entry | None) -> None:
        """Put an entry at a path, or remove the one there; folders above appear and go."""
        old = self._tree.get(path)
        if entry == old:
            return
        if old is not None:
            self.total_bytes -= old.size
        if entry is None:
            del self._tree[path]
            self._prune(path)
        else:
            self._tree[path] = entry
            self.total_bytes += entry.size
            self._link(path)

    def update(self, tree: Tree) -> None:
        """Become the index of a tree; the cost is that of what differs."""
        for path in [path for path in self._tree if path not in tree]:
            self.set(path, None)
        for path, entry in tree.items():
            if self._tree.get(path) != entry:
                self.set(path, entry)

    def _link(self, path: str) -> None:
        """Add the names of a path to the folders above it, up to the first that has it."""
        while True:
            above, _, name = path.rpartition("/")
            children = self._children.setdefault(above, set())
            if name in children:
                return
            children.add(name)
            if not above:
                return
            path = above

    def _prune(self, path: str) -> None:
        """Remove the name of what is gone, and folders that lost their last entry by it."""
        while path and path not in self:
            above, _, name = path.rpartition("/")
            children = self._children.get(above, set())
            children.discard(name)
            if children or not above:
                return
            del self._children[above]
            path = above
