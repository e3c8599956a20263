"""Merges that lose nothing: two changes of a file are joined, or both kept.

The side that came first keeps the name. The other's content gets a name that says from whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from sshwarma.common.limits import (
    MAX_COMPARED_BYTES,
    MAX_MERGED_FILES,
    MAX_PATH_PART_BYTES,
    MAX_WORKSPACE_ENTRIES,
)
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

_LONGEST_NUMBER: Final = 10 * MAX_WORKSPACE_ENTRIES
"""A number with as many digits as any that a name needs."""


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
    if not merged.conflicts:
        return KeptBoth(changes, {})
    names = _FreeNames(apply_changes(present, changes), who)
    kept: dict[str, str] = {}
    joined: list[str] = []
    for path in merged.conflicts:
        entry = theirs.get(path)
        lines = by_lines.get(path)
        if entry is None:
            kept[path] = ""
        elif lines is not None and present.get(path) == lines.ours:
            changes[path] = lines.entry
            names.add(path, lines.entry)
            joined.append(path)
        elif not entry.is_folder:
            name = names.find(path, entry)
            changes[name] = entry
            names.add(name, entry)
            kept[path] = name
    return KeptBoth(changes, kept, tuple(joined))


class _FreeNames:
    """Free names beside other paths of a tree, to which what gets one is added.

    No name is tried again for each of many conflicts, so that the work grows with their number.
    """

    def __init__(self, tree: dict[str, Entry], who: str) -> None:
        self._tree = tree
        self._who = who
        self._folders = list_folders(tree)
        self._last_numbers: dict[str, int] = {}  # by beginning of the name

    def add(self, path: str, entry: Entry) -> None:
        """Put a file into the tree."""
        self._tree[path] = entry
        self._folders.update(list_parents(path))

    def find(self, path: str, entry: Entry) -> str:
        """Return a path beside another that is free, or has the content already."""
        stem = next(filter(self._is_file, list_parents(path)), path)
        number = 1
        while True:
            beginning, found = self._make_name(path, stem, number)
            if self._tree.get(found) == entry:
                return found
            if (
                found not in self._tree
                and found not in self._folders
                and not any(map(self._is_file, list_parents(found)))
            ):
                self._last_numbers[beginning] = number
                return found
            number = max(number + 1, self._last_numbers.get(beginning, 0))

    def _make_name(self, path: str, stem: str, number: int) -> tuple[str, str]:
        """Return a name, and that with which all begin that differ from it by the number."""
        suffix = f".from-{self._who}" if number == 1 else f".from-{self._who}-{number}"
        found = f"{_cut_name(stem, suffix)}{suffix}{path[len(stem) :]}"
        if find_path_problem(found):  # too long as a whole: at the top, by its name alone
            stem = path.rpartition("/")[2]
            found = f"{_cut_name(stem, suffix)}{suffix}"
        return _cut_name(stem, f".from-{self._who}-{_LONGEST_NUMBER}"), found

    def _is_file(self, path: str) -> bool:
        """Return whether a file or link is at a path."""
        entry = self._tree.get(path)
        return entry is not None and not entry.is_folder


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
        self._merged_tree: Tree | None = None
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
        """Return what to change of a tree. Takes up to 2 s: call it in a thread."""
        if tree != self._merged_tree:  # the writer mostly has the tree that was merged before
            self.result = merge_keeping_both(tree, self._made, self._who, self._by_lines)
            self._merged_tree = tree
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
    for path, base, ours, theirs in await asyncio.to_thread(_list_mergeable, present, made):
        entry = await asyncio.to_thread(merge, base, ours, theirs)
        if entry is not None:
            merged[path] = MergedLines(ours, entry)
    if merged:
        await asyncio.to_thread(blobs.sync)
    return merged


def _list_mergeable(
    present: Tree, made: Mapping[str, PathChange]
) -> list[tuple[str, Entry, Entry, Entry]]:
    """Return path, base and both sides of the first files that both changed."""
    found = (
        (path, change.base, ours, change.entry)
        for path, change in made.items()
        if change.base is not None
        and change.entry is not None
        and (ours := present.get(path)) is not None
        and _can_merge(change.base, ours, change.entry)
    )
    return list(islice(found, MAX_MERGED_FILES))


def _can_merge(*sides: Entry) -> bool:
    """Return whether these are different files, none too large to be compared."""
    return all(side.is_file and side.size <= MAX_COMPARED_BYTES for side in sides) and len(
        set(sides)
    ) == len(sides)


def _cut_name(path: str, suffix: str) -> str:
    """Return a path whose last name has room for a suffix."""
    above, slash, name = path.rpartition("/")
    data = name.encode()[: MAX_PATH_PART_BYTES - len(suffix.encode())]
    return above + slash + data.decode(errors="ignore")
