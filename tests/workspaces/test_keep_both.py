"""Merges that lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.workspaces import keep_both
from sshwarma.workspaces.keep_both import PathChange, merge_keeping_both
from sshwarma.workspaces.paths import find_path_problem
from sshwarma.workspaces.tree import EMPTY_FOLDER, Entry, Tree, apply_changes, list_folders
from sshwarma.workspaces.workspace import complete_changes

CONFLICTS = 500
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


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of functions of the module, by name."""
    found: Counter[str] = Counter()

    def count(name: str) -> Callable[..., Any]:
        original = getattr(keep_both, name)

        def call(*args: Any) -> Any:
            found[name] += 1
            return original(*args)

        return call

    for name in ("apply_changes", "list_folders", "merge_keeping_both", "find_path_problem"):
        monkeypatch.setattr(keep_both, name, count(name))
    return found


def test_tree_and_folders_are_computed_once_for_all_conflicts(calls: Counter[str]) -> None:
    present = {f"d{i % 50}/f{i}": TWO for i in range(CONFLICTS)}
    made = {path: PathChange(ONE, THREE) for path in present}
    merged = merge_keeping_both(present, made, "al")
    assert merged.kept == {path: f"{path}.from-al" for path in present}
    assert calls["apply_changes"] == calls["list_folders"] == 1


LONG_FOLDER = "/".join(["x" * 200] * 4)
TAKEN = {"a": TWO} | {f"a.from-al-{i}": TWO for i in range(2, CONFLICTS)}


@pytest.mark.parametrize(
    ("present", "paths"),
    [
        pytest.param(
            {f"{LONG_FOLDER}/{i}/{'y' * 200}": TWO for i in range(CONFLICTS)}, None, id="long"
        ),
        pytest.param(
            {f"{LONG_FOLDER[:-50]}/{'z' * 40}{i}/{'y' * 216}": TWO for i in range(CONFLICTS)},
            None,
            id="too long with more digits",
        ),
        pytest.param(
            {"a.from-al": TWO, **TAKEN}, [f"a/{i}" for i in range(CONFLICTS)], id="below a file"
        ),
        pytest.param(
            {"x" * 247 + f"{i:08}": TWO for i in range(CONFLICTS)}, None, id="names cut alike"
        ),
    ],
)
def test_names_are_not_tried_again_for_each_conflict(
    present: Tree, paths: list[str] | None, calls: Counter[str]
) -> None:
    entries = {path: Entry(f"new {i}") for i, path in enumerate(paths or present)}
    base = None if paths else ONE
    made = {path: PathChange(base, entry) for path, entry in entries.items()}
    merged = merge_keeping_both(present, made, "al")
    after = apply_changes(present, complete_changes(present, merged.changes))
    assert {path: after[name] for path, name in merged.kept.items()} == entries
    assert calls["find_path_problem"] < 4 * CONFLICTS


def test_tree_that_was_merged_is_not_merged_again(calls: Counter[str]) -> None:
    edit = keep_both.MergingEdit({"a": PathChange(ONE, THREE)}, "al", {})
    assert edit({"a": TWO}) == edit({"a": TWO}) == {"a.from-al": THREE}
    assert calls["merge_keeping_both"] == 1
    assert edit({"a": ONE}) == {"a": THREE}
    assert edit.result.kept == {}
