"""Trees: the files of a workspace by path, their differences and merges."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from sshwarma.workspaces.paths import list_parents

FILE_MODE: Final = stat.S_IFREG | 0o644
PROGRAM_MODE: Final = stat.S_IFREG | 0o755
LINK_MODE: Final = stat.S_IFLNK
FOLDER_MODE: Final = stat.S_IFDIR


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at a path.

    Attributes:
        sha256: hash of the content, in hexadecimal; the target of a link; "" for an empty folder.
        mode: FILE_MODE, PROGRAM_MODE, LINK_MODE or FOLDER_MODE.
        size: bytes of the content.
    """

    sha256: str
    mode: int = FILE_MODE
    size: int = 0

    @property
    def is_file(self) -> bool:
        """Whether it is a file, not a link or an empty folder."""
        return stat.S_ISREG(self.mode)

    @property
    def is_program(self) -> bool:
        """Whether it is a file that may be run."""
        return self.mode == PROGRAM_MODE

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is an empty folder."""
        return stat.S_ISDIR(self.mode)


EMPTY_FOLDER: Final = Entry("", FOLDER_MODE)
"""The entry of a folder that has nothing in it."""

Tree: TypeAlias = Mapping[str, Entry]
"""The entries of a workspace by path. A folder has one of its own only if it is empty."""

Changes: TypeAlias = Mapping[str, Entry | None]
"""New entries by path; None removes one."""


def compare_trees(old: Tree, new: Tree) -> dict[str, Entry | None]:
    """Return the changes that make the new tree of the old one, by path."""
    changed: dict[str, Entry | None] = {
        path: entry for path, entry in new.items() if old.get(path) != entry
    }
    changed.update(dict.fromkeys(path for path in old if path not in new))
    return dict(sorted(changed.items()))


def apply_changes(tree: Tree, changes: Changes) -> dict[str, Entry]:
    """Return the tree with the changes."""
    result = {path: entry for path, entry in tree.items() if path not in changes}
    result.update({path: entry for path, entry in changes.items() if entry is not None})
    return result


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge: the changes to make, and the paths that both sides changed."""

    changes: Changes
    conflicts: tuple[str, ...]


def merge_trees(base: Tree, ours: Tree, theirs: Tree) -> Merge:
    """Return what brings the changes from `base` to `theirs` into `ours`.

    A path that both changed, each to something else, is a conflict and stays as it is in `ours`;
    so does one that would be a file where the other has a folder.
    """
    changes: dict[str, Entry | None] = {}
    conflicts: list[str] = []
    for path, entry in compare_trees(base, theirs).items():
        present = ours.get(path)
        if present == entry:
            continue
        if present == base.get(path):
            changes[path] = entry
        else:
            conflicts.append(path)
    while clashes := _find_clashes(ours, changes):
        conflicts += clashes
        for path in clashes:
            del changes[path]
    return Merge(changes, tuple(sorted(conflicts)))


def _find_clashes(ours: Tree, changes: Changes) -> list[str]:
    """Return the new paths that would make a file of a folder or be below a file.

    An empty folder is no file: it loses its entry when something is put in it.
    """
    result = apply_changes(ours, changes)
    folders = {folder for path in result for folder in list_parents(path)}
    files = {path for path, entry in result.items() if path in folders and not entry.is_folder}
    return [
        path
        for path, entry in changes.items()
        if entry is not None and (path in files or any(up in files for up in list_parents(path)))
    ]


def list_folders(tree: Tree) -> set[str]:
    """Return all folders of a tree, empty ones included."""
    folders = {folder for path in tree for folder in list_parents(path)}
    return folders | {path for path, entry in tree.items() if entry.is_folder}


def find_below(tree: Tree, folder: str) -> list[str]:
    """Return the paths in a folder and its subfolders, in order; "" is the tree."""
    prefix = f"{folder}/" if folder else ""
    return sorted(path for path in tree if path.startswith(prefix))
