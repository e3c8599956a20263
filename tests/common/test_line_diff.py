"""Differences of lines: they make the new text, in a bounded number of steps."""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.line_diff import format_unified_diff, list_line_changes

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "@@ -1 +1 @@"]), max_size=40)


def apply_line_changes(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the old lines with the changes of a comparison."""
    result: list[str] = []
    at = 0
    for change in list_line_changes(old, new):
        assert change.start > at or at == 0, "changes are apart"
        result += [*old[at : change.start], *new[change.new_start : change.new_end]]
        at = change.end
    return [*result, *old[at:]]


def patch(old: Sequence[str], diff: Iterable[str]) -> list[str]:
    """Return the old lines with a unified diff, of which each old line is checked."""
    result: list[str] = []
    at = old_left = new_left = 0
    for line in diff:
        if not old_left and not new_left:
            found = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
            assert found is not None, line
            old_left, new_left = int(found[2] or 1), int(found[4] or 1)
            start = int(found[1]) - (1 if old_left else 0)
            result += old[at:start]
            at = start
            assert len(result) == int(found[3]) - (1 if new_left else 0)
            continue
        if line[0] in " -":
            assert old[at] == line[1:]
            at, old_left = at + 1, old_left - 1
        if line[0] in " +":
            result.append(line[1:])
            new_left -= 1
    assert old_left == new_left == 0
    return [*result, *old[at:]]


def count_common_lines(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the length of a longest common subsequence, by the textbook."""
    row = [0] * (len(new) + 1)
    for line in old:
        before = row
        row = [0]
        for place, other in enumerate(new):
            row.append(before[place] + 1 if line == other else max(row[-1], before[place + 1]))
    return row[-1]


@given(old=LINES, new=LINES, context=st.integers(0, 3))
def test_differences_make_the_new_text(old: list[str], new: list[str], context: int) -> None:
    assert apply_line_changes(old, new) == new
    assert patch(old, format_unified_diff(old, new, context)) == new


@given(old=LINES, new=LINES)
def test_no_line_is_changed_that_both_could_keep(old: list[str], new: list[str]) -> None:
    removed = sum(change.end - change.start for change in list_line_changes(old, new))
    assert len(old) - removed == count_common_lines(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("a", "a"), ("", "ab"), ("ab", ""), ("abcdefghijkl", "abXdefghijYl"), ("abc", "b")],
)
def test_unified_diff_is_that_of_others(old: str, new: str) -> None:
    expected = list(difflib.unified_diff(old, new, n=3, lineterm=""))[2:]
    assert list(format_unified_diff(old, new, 3)) == expected


class CountedLine(str):
    """A line that counts how often it is looked up or compared."""

    uses: ClassVar[int] = 0

    def __hash__(self) -> int:
        CountedLine.uses += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        CountedLine.uses += 1
        return super().__eq__(other)


def make_hostile_lines(count: int, side: str) -> list[str]:
    """Return lines of which every second is on both sides, the worst of difflib."""
    kinds = count // max(1, count // 100 - 2) + 1
    pairs = ([f"{i % kinds:x}", f"{side}{i:x}"] for i in range(count // 2))
    return [line for pair in pairs for line in pair]


def make_mixed_lines(count: int, side: str) -> list[str]:
    """Return lines that are all on both sides, once, in another order."""
    return [str(i) for i in random.Random(side).sample(range(count), count)]


@pytest.mark.parametrize("make", [make_hostile_lines, make_mixed_lines])
@pytest.mark.parametrize("count", [600, 2_400])
def test_each_line_is_looked_up_a_few_times(
    make: Callable[[int, str], list[str]], count: int
) -> None:
    old = [CountedLine(line) for line in make(count, "p")]
    new = [CountedLine(line) for line in make(count, "q")]
    CountedLine.uses = 0
    changes = list_line_changes(old, new)
    assert CountedLine.uses < 20 * count
    assert len(changes) > 10
    assert apply_line_changes(old, new) == new
