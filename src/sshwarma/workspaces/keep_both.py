"""Merges that lose nothing: of a file that two sides changed, both are kept.

The side that came first keeps the name. The other's content gets a name that says from whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sshwarma.common.limits import MAX_PATH_PART_BYTES
from sshwarma.workspaces.paths import find_path_problem, list_parents
from sshwarma.workspaces.tree import (
    Changes,
    Entry,
    Tree,
    apply_changes,
    list_folders,
    merge_trees,
)


@dataclass(frozen=True, slots=True)
class PathChange:
    """A change of one path: what was there when it began, and what is to be there."""

    base: Entry | None
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class KeptBoth:
    """A merge: the changes to make of the present tree, and what became of conflicts.

    Attributes:
        kept: the names of the other contents, by the path that two sides changed; "" for a
            removal that was not made, because the file has changed.
    """

    changes: Changes
    kept: Mapping[str, str]


def merge_keeping_both(present: Tree, made: Mapping[str, PathChange], who: str) -> KeptBoth:
    """Merge changes of paths into the present tree; `who` made them."""
    base = {path: change.base for path, change in made.items() if change.base is not None}
    theirs = {path: change.entry for path, change in made.items() if change.entry is not None}
    merged = merge_trees(base, present, theirs)
    changes = dict(merged.changes)
    kept: dict[str, str] = {}
    for path in merged.conflicts:
        entry = theirs.get(path)
        if entry is None:
            kept[path] = ""
        elif not entry.is_folder:
            name = _find_free_path(apply_changes(present, changes), path, entry, who)
            changes[name] = entry
            kept[path] = name
    return KeptBoth(changes, kept)


def _find_free_path(tree: Tree, path: str, entry: Entry, who: str) -> str:
    """Return a path beside another that is free, or has the content already."""
    blocking = next(
        (above for above in list_parents(path) if (e := tree.get(above)) and not e.is_folder), ""
    )
    stem = blocking or path
    rest = path[len(stem) :]
    folders = list_folders(tree)
    number = 1
    while True:
        suffix = f".from-{who}" if number == 1 else f".from-{who}-{number}"
        start = _cut_name(stem, suffix)
        found = f"{start}{suffix}{rest}"
        if find_path_problem(found):  # too long as a whole: at the top, by its name alone
            found = f"{_cut_name(path.rpartition('/')[2], suffix)}{suffix}"
        if tree.get(found) == entry:
            return found
        above_is_file = any(
            (e := tree.get(above)) is not None and not e.is_folder for above in list_parents(found)
        )
        if found not in tree and found not in folders and not above_is_file:
            return found
        number += 1


def _cut_name(path: str, suffix: str) -> str:
    """Return a path whose last name has room for a suffix."""
    above, slash, name = path.rpartition("/")
    data = name.encode()[: MAX_PATH_PART_BYTES - len(suffix.encode())]
    return above + slash + data.decode(errors="ignore")
