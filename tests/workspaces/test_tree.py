"""Trees and paths of a workspace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.near_names import MAX_COMPARED_NAMES
from sshwarma.workspaces.paths import parse_path
from sshwarma.workspaces.tree import (
    EMPTY_FOLDER,
    PROGRAM_MODE,
    Entry,
    Tree,
    apply_changes,
    compare_trees,
    find_below,
    list_folders,
    merge_trees,
)
from sshwarma.workspaces.tree_edits import move_path, remove_paths, unknown_file_error
from sshwarma.workspaces.workspace import complete_changes
from sshwarma.world.errors import Conflict, Invalid, NotFound

ENTRIES = st.builds(Entry, st.sampled_from("123"), st.sampled_from([0o100644, PROGRAM_MODE]))
TREES = st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e", "f"]), ENTRIES)


@given(TREES, TREES)
def test_comparison_makes_the_new_tree_of_the_old(old: Tree, new: Tree) -> None:
    assert apply_changes(old, compare_trees(old, new)) == new


@given(TREES, TREES)
def test_merge_of_one_side_alone_is_that_side(base: Tree, theirs: Tree) -> None:
    made = merge_trees(base, base, theirs)
    assert (apply_changes(base, made.changes), made.conflicts) == (theirs, ())
    assert merge_trees(base, theirs, base).changes == {}


@given(TREES, TREES, TREES)
def test_merge_keeps_our_side_where_both_changed(base: Tree, ours: Tree, theirs: Tree) -> None:
    made = merge_trees(base, ours, theirs)
    after = apply_changes(ours, made.changes)
    for path in {*base, *ours, *theirs}:
        if path in made.conflicts or base.get(path) == theirs.get(path):
            assert after.get(path) == ours.get(path)
        else:
            assert after.get(path) == theirs.get(path)


def test_merge_makes_no_file_of_a_folder() -> None:
    one = Entry("1")
    made = merge_trees({}, {"a/b": one}, {"a": one})
    assert (made.changes, made.conflicts) == ({}, ("a",))
    made = merge_trees({}, {"a": one}, {"a/b": one})
    assert (made.changes, made.conflicts) == ({}, ("a/b",))


@pytest.mark.parametrize("path", ["a", "a/b.txt", "ä/ü", "a b/c", "-x", ".hidden/x", "a~"])
def test_path_is_accepted(path: str) -> None:
    assert parse_path(path) == path
    assert parse_path(f"./{path}/") == path


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty"), (".", "empty"), ("/etc/passwd", "relative"), ("//etc", "relative"),
        ("~/x", "relative"), ("../x", "leave"), ("a/../../x", "leave"), ("a/..", "leave"),
        ("a//b", "empty folder"), ("a/./b", "empty folder"), ("a\\b", "not \\\\"),
        ("a\x00b", "U\\+0000"), ("a\x1b[31m", "U\\+001B"), ("a\u202eb", "U\\+202E"),
        ("a\ue000", "U\\+E000"), ("a\u2028", "U\\+2028"), ("\u3164", "U\\+3164"),
        ("x" * 256, "256 bytes"), ("a/" * 32 + "b", "32 names"),
        ("/".join(["x" * 200] * 6), "1024 bytes"),
    ],
)  # fmt: skip
def test_path_is_refused_with_the_reason(path: str, why: str) -> None:
    with pytest.raises(Invalid, match=f"path: .*{why}"):
        parse_path(path)


def test_folders_follow_from_paths() -> None:
    tree = {"a/b/c": Entry("1"), "d": EMPTY_FOLDER}
    assert list_folders(tree) == {"a", "a/b", "d"}
    assert find_below(tree, "a") == ["a/b/c"]
    assert find_below(tree, "") == ["a/b/c", "d"]


def test_file_takes_the_place_of_an_empty_folder_entry() -> None:
    tree = {"d": EMPTY_FOLDER}
    assert complete_changes(tree, {"d/x": Entry("1")}) == {"d/x": Entry("1"), "d": None}
    with pytest.raises(Conflict, match="d is a file, not a folder"):
        complete_changes({"d": Entry("1")}, {"d/x": Entry("1")})
    with pytest.raises(Conflict, match="d is a folder"):
        complete_changes({"d/x": Entry("1")}, {"d": Entry("1")})


def test_moving_and_removing_take_folders_whole() -> None:
    tree = {"a/x": Entry("1"), "a/y/z": Entry("2"), "b": Entry("3"), "c/k": Entry("4")}
    assert remove_paths(tree, ["a"]) == {"a/x": None, "a/y/z": None}
    moved = apply_changes(tree, move_path(tree, "a", "q"))
    assert set(moved) == {"q/x", "q/y/z", "b", "c/k"}
    assert set(apply_changes(tree, move_path(tree, "b", "c"))) == {"a/x", "a/y/z", "c/b", "c/k"}
    with pytest.raises(Conflict, match="into itself"):
        move_path(tree, "a", "a/y/q")
    with pytest.raises(Conflict, match="already exists"):
        move_path(tree, "b", "a/x")
    with pytest.raises(NotFound, match="Unknown file bb"):
        move_path(tree, "bb", "x")


@pytest.mark.parametrize(
    ("typed", "near"), [("z/docs/plan.md", "zz/docs/plan.md"), ("zz/src/mian.py", "zz/src/main.py")]
)
def test_near_path_is_found_behind_many_others(typed: str, near: str) -> None:
    """Of many names only the first are compared: those of the same name or folder."""
    others = {f"a{number:04}": Entry("") for number in range(MAX_COMPARED_NAMES)}
    tree = {**others, near: Entry("")}
    assert f"Did you mean {near}?" in unknown_file_error(tree, typed).hints
