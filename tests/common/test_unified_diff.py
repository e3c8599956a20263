"""Unified diffs applied to a text, against those that `difflib` writes."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.lines import split_text_lines
from sshwarma.common.unified_diff import DiffError, apply_unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "- x", "+ y", "@@", "same"]), max_size=12)


def make_diff(old: list[str], new: list[str], context: int = 3) -> str:
    lines = difflib.unified_diff(old, new, "old", "new", n=context, lineterm="")
    return "\n".join(lines)


@given(st.lists(st.sampled_from(["x\r\n", "y\n", "x\n", "z\r"]), min_size=1, max_size=6), st.data())
def test_lines_that_stay_keep_their_ends(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[-1] = data.draw(st.sampled_from([lines[-1], lines[-1].rstrip("\r\n")]))
    old = [line.rstrip("\r\n") for line in lines]
    parts = [f" {line}" for line in old]
    parts[at : at + 1] = [f"-{old[at]}", "+new"]
    diff = "\n".join([f"@@ -1,{len(old)} +1,{len(old)} @@", *parts])
    made = apply_unified_diff("".join(lines), diff)
    parts = split_text_lines(made.text)
    assert parts[at].rstrip("\r\n") == "new"
    assert parts[:at] == lines[:at] and parts[at + 1 :] == lines[at + 1 :]


@given(LINES, LINES, st.integers(0, 3), st.sampled_from(["\n", "\r\n"]))
def test_a_diff_makes_the_new_text(old: list[str], new: list[str], context: int, end: str) -> None:
    if old == new or not old:  # whose ends could not be known
        return
    text = "".join(line + end for line in old)
    made = apply_unified_diff(text, make_diff(old, new, context))
    assert made.text == "".join(line + end for line in new)
    assert made.moves == ()


def test_a_hunk_whose_lines_have_moved_is_found() -> None:
    old = [f"line {number}" for number in range(20)]
    new = [*old[:10], "changed", *old[11:]]
    text = "\n".join(["before"] * 7 + old) + "\n"
    made = apply_unified_diff(text, make_diff(old, new))
    assert made.text == "\n".join(["before"] * 7 + new) + "\n"
    assert made.moves == ((1, 7),)


def test_a_missing_end_of_line_stays_or_goes_as_the_diff_says() -> None:
    diff = "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
    assert apply_unified_diff("a\nb", diff).text == "a\nc\n"
    diff = "--- x\n+++ y\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    assert apply_unified_diff("a\nb\n", diff).text == "a\nc"


def test_an_insertion_without_context_stands_where_its_header_says() -> None:
    assert apply_unified_diff("a\nb\n", "@@ -1,0 +2 @@\n+new").text == "a\nnew\nb\n"
    assert apply_unified_diff("", "@@ -0,0 +1 @@\n+new\n").text == "new\n"


@pytest.mark.parametrize(
    ("diff", "says"),
    [
        ("", "has no hunk"),
        ("*** Begin Patch\n", "has no hunk"),
        ("words\n", "line 1 is no header"),
        ("@@ -1,2 +1 @@\n a", "ends before the lines"),
        ("@@ -1,2 +1,2 @@\n a\nb", "line 3 has no space, - or + first"),
        ("@@ -1 +1 @@\n-z\n+y", "hunk 1 (line 1) does not fit"),
    ],
)
def test_a_diff_that_does_not_fit_says_where(diff: str, says: str) -> None:
    with pytest.raises(DiffError) as refused:
        apply_unified_diff("a\nb\n", diff)
    assert says in str(refused.value)


def test_looking_for_moved_hunks_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sshwarma.common.unified_diff.MAX_HUNK_COMPARISONS", 500)
    text = "same\n" * 100
    hunk = " same\n" * 20  # 80 places of 20 lines each
    with pytest.raises(DiffError, match="too far"):
        apply_unified_diff(text, f"@@ -1,21 +1,20 @@\n{hunk}-other")


def test_a_far_number_in_a_header_costs_nothing() -> None:
    far = 999_999_999
    made = apply_unified_diff("a\nb\nc\n", f"@@ -{far} +{far} @@\n-b\n+x")
    assert made.text == "a\nx\nc\n"
    with pytest.raises(DiffError, match="does not fit"):
        apply_unified_diff("a\nb\nc\n", f"@@ -{far} +{far} @@\n-zz\n+x")
