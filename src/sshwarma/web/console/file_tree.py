"""The files of a room as a tree of folders, for a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sshwarma.verbs.file_views import FileListItem, format_size

MAX_OPEN_FILES = 100
"""Files of a tree whose folders are all open at first: more of them are easier found by folder."""


@dataclass(slots=True)
class FileNode:
    """A file in a tree: what a list says of it, in words."""

    path: str
    name: str
    facts: str
    mark: str
    last: str


@dataclass(slots=True)
class FolderNode:
    """A folder in a tree.

    Attributes:
        count: files in it and in the folders below.
        changed: how many of them the last run has added or changed.
    """

    path: str
    name: str
    is_open: bool = False
    count: int = 0
    changed: int = 0
    folders: dict[str, FolderNode] = field(default_factory=dict)
    files: list[FileNode] = field(default_factory=list)


def build_tree(items: Iterable[FileListItem], folder: str = "") -> FolderNode:
    """Return the tree of what is in a folder; "" is the room."""
    root = FolderNode(folder, "")
    shown = list(items)
    for item in shown:
        below = item.path[len(folder) + 1 :] if folder else item.path
        _add(root, below, item, is_open=len(shown) <= MAX_OPEN_FILES)
    return root


def _add(root: FolderNode, below: str, item: FileListItem, *, is_open: bool) -> None:
    *names, name = below.split("/")
    if item.kind == "folder":
        names.append(name)
    node, is_file = root, item.kind != "folder"
    for one in ["", *names]:
        if one:
            path = f"{node.path}/{one}" if node.path else one
            node = node.folders.setdefault(one, FolderNode(path, one, is_open))
        node.count += is_file
        node.changed += bool(item.changed)
    if is_file:
        node.files.append(make_file_node(item))


def make_file_node(item: FileListItem) -> FileNode:
    """Return what a page says of a file."""
    kind = "" if item.kind == "file" else f", {item.kind}"
    return FileNode(
        item.path,
        item.path.rpartition("/")[2],
        f"{format_size(item.size)}{kind}",
        f"{item.changed} by the last run" if item.changed else "",
        f"{item.by}, {item.at[:16].replace('T', ' ')}" if item.by else "",
    )
