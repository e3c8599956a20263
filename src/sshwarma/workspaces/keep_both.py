"""Merges that lose nothing: two changes of a file are joined, or both kept.

The side that came first keeps the name. The other's content gets a name that says from whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from sshwarma.common.limits import MAX_COMPARED_BYTES, MAX_MERGED_FILES, MAX_PATH_PART_BYTES
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.line_merge import merge_texts
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
        merged: paths that two sides changed in different lines, and that have both now.
    """

    changes: Changes
    kept: Mapping[str, str]
    merged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedLines:
    """A text with the lines of two sides: `entry`, in place of `ours`."""

    ours: Entry
    entry: Entry


def merge_keeping_both(
    present: Tree,
    made: Mapping[str, PathChange],
    who: str,
    by_lines: Mapping[str, MergedLines] | None = None,
) -> KeptBoth:
    """Merge changes of paths into the present tree.

    Args:
        present: the tree.
        made: the changes.
        who: made them.
        by_lines: texts that were merged by lines before, by path.
    """
    by_lines = by_lines or {}
    base = {path: change.base for path, change in made.items() if change.base is not None}
    theirs = {path: change.entry for path, change in made.items() if change.entry is not None}
    merged = merge_trees(base, present, theirs)
    changes = dict(merged.changes)
    kept: dict[str, str] = {}
    joined: list[str] = []
    for path in merged.conflicts:
        entry = theirs.get(path)
        lines = by_lines.get(path)
        if entry is None:
            kept[path] = ""
        elif lines is not None and present.get(path) == lines.ours:
            changes[path] = lines.entry
            joined.append(path)
        elif not entry.is_folder:
            name = _find_free_path(apply_changes(present, changes), path, entry, who)
            changes[name] = entry
            kept[path] = name
    return KeptBoth(changes, kept, tuple(joined))


class MergingEdit:
    """An edit that merges changes into the present tree, whatever it is by then.

    Attributes:
        result: what the last merge became.
    """

    def __init__(
        self, made: Mapping[str, PathChange], who: str, by_lines: Mapping[str, MergedLines]
    ) -> None:
        self._made = made
        self._who = who
        self._by_lines = by_lines
        self.result = KeptBoth({}, {})

    @classmethod
    async def prepare(
        cls, blobs: BlobStore, present: Tree, made: Mapping[str, PathChange], who: str
    ) -> Self:
        """Merge by lines now what must not be merged in a transaction.

        Raises:
            DamagedBlob: if a content is missing or damaged.
            Unavailable: if the disk is full or fails.
        """
        return cls(made, who, await _merge_by_lines(blobs, present, made))

    def __call__(self, tree: Tree) -> Changes:
        """Return what to change of a tree."""
        self.result = merge_keeping_both(tree, self._made, self._who, self._by_lines)
        return self.result.changes


async def _merge_by_lines(
    blobs: BlobStore, present: Tree, made: Mapping[str, PathChange]
) -> dict[str, MergedLines]:
    """Merge the texts that two sides have changed in different lines, and store them.

    Raises:
        DamagedBlob: if a content is missing or damaged.
        Unavailable: if the disk is full or fails.
    """

    def merge(base: Entry, ours: Entry, theirs: Entry) -> Entry | None:
        texts = (blobs.read(side.sha256) for side in (base, ours, theirs))
        found = merge_texts(*texts)
        if found is None:
            return None
        mode = ours.mode if theirs.mode == base.mode else theirs.mode
        return Entry(blobs.store(found), mode, len(found))

    merged: dict[str, MergedLines] = {}
    compared = 0
    for path, change in made.items():
        sides = (change.base, present.get(path), change.entry)
        files = [side for side in sides if side is not None and side.is_file]
        if len(files) < len(sides) or len(set(files)) < len(sides):
            continue
        if max(file.size for file in files) > MAX_COMPARED_BYTES:
            continue
        if compared == MAX_MERGED_FILES:
            break
        compared += 1
        entry = await asyncio.to_thread(merge, *files)
        if entry is not None:
            merged[path] = MergedLines(files[1], entry)
    if merged:
        await asyncio.to_thread(blobs.sync)
    return merged


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
