"""Merges that lose nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.workspaces.folders import EMPTY_FOLDER
from sshwarma.workspaces.keep_both import PathChange, merge_keeping_both
from sshwarma.workspaces.paths import find_path_problem
from sshwarma.workspaces.tree import Entry, Tree, apply_changes, list_folders
from sshwarma.workspaces.workspace import complete_changes

ONE, TWO, THREE = Entry("1"), Entry("2"), Entry("3")
ENTRIES = st.builds(Entry, st.sampled_from("1234"))
PATHS = st.sampled_from(["a", "b", "c", "c/d", "c/e", "f/g/h"])


def is_possible(tree: Tree) -> bool:
    return not any(path in list_folders(tree) for path in tree)


TREES = st.dictionaries(PATHS, ENTRIES).filter(is_possible)


@given(TREES, TREES, TREES)
def test_every_new_content_is_in_the_merge(base: Tree, present: Tree, theirs: Tree) -> None:
    made = {
        path: PathChange(base.get(path), theirs.get(path))
        for path in {*base, *theirs}
        if base.get(path) != theirs.get(path)
    }
    merged = merge_keeping_both(present, made, "alice")
    completed = complete_changes(present, merged.changes)
    after = apply_changes(present, completed)
    assert is_possible(after)
    for path, change in made.items():
        if path not in merged.kept:
            assert after.get(path) == change.entry
        elif change.entry is None:
            assert merged.kept[path] == "" and after.get(path) == present.get(path)
        else:
            assert after[merged.kept[path]] == change.entry
    untouched = {path for path in present if path not in made}
    assert all(after.get(path) == present[path] for path in untouched)


@pytest.mark.parametrize(
    ("present", "path", "base", "kept"),
    [
        ({"plan.md": TWO}, "plan.md", ONE, "plan.md.from-al"),
        ({}, "plan.md", ONE, "plan.md.from-al"),
        ({"a/b/c": TWO}, "a/b/c", ONE, "a/b/c.from-al"),
        ({"a": TWO}, "a/b", None, "a.from-al/b"),
        ({"a/b": TWO}, "a", None, "a.from-al"),
        ({"a": TWO, "a.from-al": ONE}, "a", ONE, "a.from-al-2"),
        ({"a": TWO, "a.from-al": THREE}, "a", ONE, "a.from-al"),
        ({"a": TWO, "a.from-al/x": ONE}, "a", ONE, "a.from-al-2"),
        ({"x" * 255: TWO}, "x" * 255, ONE, "x" * 247 + ".from-al"),
        ({"ü" * 127: TWO}, "ü" * 127, ONE, "ü" * 123 + ".from-al"),
    ],
)
def test_other_content_gets_a_free_name(
    present: Tree, path: str, base: Entry | None, kept: str
) -> None:
    merged = merge_keeping_both(present, {path: PathChange(base, THREE)}, "al")
    assert merged.kept == {path: kept}
    assert apply_changes(present, merged.changes)[kept] == THREE
    assert find_path_problem(kept) == ""


def test_removal_of_what_others_changed_is_not_made() -> None:
    merged = merge_keeping_both({"a": TWO}, {"a": PathChange(ONE, None)}, "al")
    assert (merged.changes, merged.kept) == ({}, {"a": ""})


def test_empty_folder_is_no_conflict_with_what_others_put_in_it() -> None:
    merged = merge_keeping_both({"d/x": ONE}, {"d": PathChange(None, EMPTY_FOLDER)}, "al")
    assert merged.kept == {}
    assert complete_changes({"d/x": ONE}, merged.changes) == {"d": None}
