"""Edits of a tree: what a removal, a move and a new folder change."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sshwarma.common.shorten import shorten_name
from sshwarma.workspaces.tree import EMPTY_FOLDER, Changes, Entry, Tree, find_below, list_folders
from sshwarma.world.errors import Conflict, NotFound, unknown_name_error
from sshwarma.world.reader import next_call


def remove_paths(tree: Tree, paths: Collection[str]) -> Changes:
    """Return the changes that remove files, and folders with all that is in them.

    Raises:
        NotFound: if nothing is at one of the paths.
    """
    changes: dict[str, Entry | None] = {}
    folders = list_folders(tree)
    for path in paths:
        if path in tree:
            changes[path] = None
        elif path in folders:
            changes.update(dict.fromkeys(find_below(tree, path)))
        else:
            raise unknown_file_error(tree, path)
    return changes


def move_path(tree: Tree, old: str, new: str, *, over: bool = False) -> Changes:
    """Return the changes that move a file, or a folder with all that is in it.

    A target that is a folder takes what is moved into it, as `mv` does. With `over`, a file takes
    the place of another.

    Raises:
        NotFound: if nothing is at the old path.
        Conflict: if something is at the new one, or it is within the old one.
    """
    folders = list_folders(tree)
    if old not in tree and old not in folders:
        raise unknown_file_error(tree, old)
    if new in folders and new != old:
        new = f"{new}/{old.rpartition('/')[2]}"
    if new == old:
        raise Conflict(f"{shorten_name(old)} is there already.")
    replaces = over and old in tree and new in tree and new not in folders
    if not replaces and (new in tree or new in folders):
        raise Conflict(f"{shorten_name(new)} already exists.")
    if new.startswith(f"{old}/"):
        raise Conflict("A folder cannot be moved into itself.")
    moved = [old] if old in tree else []
    moved += find_below(tree, old)
    changes: dict[str, Entry | None] = dict.fromkeys(moved)
    changes.update({new + path[len(old) :]: tree[path] for path in moved})
    return changes


def make_folder(tree: Tree, path: str) -> Changes:
    """Return the changes that make an empty folder.

    Raises:
        Conflict: if something is there.
    """
    if path in tree or path in list_folders(tree):
        raise Conflict(f"{shorten_name(path)} already exists.")
    return {path: EMPTY_FOLDER}


def unknown_file_error(tree: Tree, path: str, where: str = "") -> NotFound:
    """Return the refusal of a path at which nothing is, with near paths."""
    hint = next_call("{} lists them.", "files")
    known = _list_nearest_first(tree, path)
    return unknown_name_error("file", path, where=where, known=known, hint=hint)


def _list_nearest_first(tree: Tree, path: str) -> Iterable[str]:
    """Return all paths, first those of the same name, then of the same folder.

    Only the first of many names are compared.
    """
    folder, _, name = path.rpartition("/")
    parts = [(other, other.rpartition("/")) for other in tree]
    same_name = [other for other, (_, _, last) in parts if last == name]
    beside = [other for other, (above, _, _) in parts if above == folder]
    return dict.fromkeys((*same_name, *beside, *tree))
