"""Trees of git that follow the files of a room, version by version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from dulwich.objects import ObjectID, ShaFile, Tree

TREE_MODE: Final = 0o040000

_File: TypeAlias = tuple[int, ObjectID]


@dataclass(slots=True)
class _Folder:
    """A folder: its id while it is unchanged, its entries once they are read."""

    id: ObjectID | None
    entries: dict[bytes, _File | _Folder] | None


class TreeWriter:
    """The tree of the newest version; folders that have not changed are not read."""

    def __init__(self, read_tree: Callable[[ObjectID], Tree], root: ObjectID | None) -> None:
        """Begin with a tree, or an empty one.

        Args:
            read_tree: returns a tree by its id.
            root: the id of the tree.
        """
        self._read_tree = read_tree
        self._root = _Folder(root, {} if root is None else None)

    def set(self, path: str, mode: int, blob_id: ObjectID) -> None:
        """Put a file or a link at a path, in place of what is there."""
        *parents, name = path.encode().split(b"/")
        folder = self._root
        for part in parents:
            entries = self._read_entries(folder)
            folder.id = None
            inner = entries.get(part)
            if not isinstance(inner, _Folder):
                inner = entries[part] = _Folder(None, {})
            folder = inner
        self._read_entries(folder)[name] = (mode, blob_id)
        folder.id = None

    def remove(self, path: str) -> None:
        """Remove a file or link, or nothing if there is no such path."""
        *parents, name = path.encode().split(b"/")
        above = [self._root]
        for part in parents:
            inner = self._read_entries(above[-1]).get(part)
            if not isinstance(inner, _Folder):
                return
            above.append(inner)
        if self._read_entries(above[-1]).pop(name, None) is not None:
            for folder in above:
                folder.id = None

    def write(self, add: Callable[[ShaFile], None]) -> ObjectID:
        """Give the changed trees to `add`; return the id of the whole."""
        root_id = self._write(self._root, add)
        if root_id is None:
            empty = Tree()
            add(empty)
            root_id = self._root.id = empty.id
        return root_id

    def _read_entries(self, folder: _Folder) -> dict[bytes, _File | _Folder]:
        if folder.entries is None:
            tree = Tree() if folder.id is None else self._read_tree(folder.id)
            folder.entries = {
                entry.path: _Folder(entry.sha, None)
                if entry.mode == TREE_MODE
                else (entry.mode, entry.sha)
                for entry in tree.items()
            }
        return folder.entries

    def _write(self, folder: _Folder, add: Callable[[ShaFile], None]) -> ObjectID | None:
        """Return the id of a folder; None if nothing is in it: git has no empty folders."""
        if folder.id is not None:
            return folder.id
        entries = self._read_entries(folder)
        tree = Tree()
        for name, entry in list(entries.items()):
            if not isinstance(entry, _Folder):
                tree.add(name, *entry)
            elif (inner_id := self._write(entry, add)) is not None:
                tree.add(name, TREE_MODE, inner_id)
            else:
                del entries[name]
        if not entries:
            return None
        add(tree)
        folder.id = tree.id
        return folder.id
