"""Merges by lines: nothing of a side is lost, and what both changed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.workspaces.line_merge import merge_texts

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d"]), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("A\nb\nc\nd\n", "a\nb\nc\nD\n", "A\nb\nc\nD\n"),
        ("new\na\nb\nc\nd\n", "a\nb\nc\nd\nend\n", "new\na\nb\nc\nd\nend\n"),
        ("a\nc\nd\n", "a\nb\nc\nd\nend", "a\nc\nd\nend"),
        ("A\nb\nc\nd\n", "A\nb\nc\nD\n", "A\nb\nc\nD\n"),
        ("a\nB\nc\nd\n", "a\nX\nc\nd\n", None),
        ("a\nB\nc\nd\n", "a\nb\nX\nd\n", None),  # they touch
        ("a\nb\nc\nd\nx\n", "a\nb\nc\nd\ny\n", None),
        ("a\nc\nd\n", "a\nB\nc\nd\n", None),
    ],
)
def test_changes_of_other_lines_are_joined(ours: str, theirs: str, merged: str | None) -> None:
    base = b"a\nb\nc\nd\n"
    found = merge_texts(base, ours.encode(), theirs.encode())
    assert found == (None if merged is None else merged.encode())
    assert merge_texts(base, theirs.encode(), ours.encode()) == found


@given(base=LINES, other=LINES)
def test_side_without_changes_gets_those_of_the_other(base: str, other: str) -> None:
    assert merge_texts(base.encode(), base.encode(), other.encode()) == other.encode()
    assert merge_texts(base.encode(), other.encode(), base.encode()) == other.encode()
    assert merge_texts(base.encode(), other.encode(), other.encode()) == other.encode()


@given(before=LINES, middle=LINES, after=LINES, head=LINES, tail=LINES)
def test_changes_at_both_ends_are_both_in(
    before: str, middle: str, after: str, head: str, tail: str
) -> None:
    kept = f"{middle}\n1\n2\n3\n"
    base = f"{before}\n{kept}{after}"
    found = merge_texts(base.encode(), f"{head}\n{kept}{after}".encode(),
                        f"{before}\n{kept}{tail}".encode())  # fmt: skip
    assert found in (f"{head}\n{kept}{tail}".encode(), None)


@given(base=LINES, data=st.data())
def test_no_new_line_of_a_side_is_lost(base: str, data: st.DataObject) -> None:
    sides = []
    for name in ("ours", "theirs"):
        lines = base.splitlines(keepends=True)
        for number in range(data.draw(st.integers(0, 3))):
            place = data.draw(st.integers(0, len(lines)))
            removed = data.draw(st.integers(0, 2))
            lines[place : place + removed] = [f"{name} {number}\n"]
        sides.append("".join(lines))
    merged = merge_texts(base.encode(), *(side.encode() for side in sides))
    if merged is not None:
        made = {line for side in sides for line in side.splitlines() if line[0:1] in ("o", "t")}
        assert made <= set(merged.decode().splitlines())


@pytest.mark.parametrize("odd", [b"\0", b"\xff\xfe", b"x\n" * 6_000, b"x" * (2 << 20)])
def test_bytes_and_large_texts_are_not_merged(odd: bytes) -> None:
    assert merge_texts(b"a\n", odd, b"b\n") is None
    assert merge_texts(odd, b"a\n", b"b\n") is None
