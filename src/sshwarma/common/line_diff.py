"""Differences of two lists of lines, in a time that their lengths bound.

difflib is cubic for lines that people can choose: 5,000 lines take 16 seconds. This finds a longest
common subsequence with bits in large integers (Hyyrö, 2004): each old line takes a few operations
on integers that have one bit for each new line. Rows of bits are kept at checkpoints and computed
again between them, so that memory grows with `length ** 1.5` bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Final

from sshwarma.common.shared_start import count_shared

MAX_KEPT_MASKS: Final = 1_000
"""Masks of lines that a comparison keeps, 2.7 kB each if there are 20,000 lines: another is made
for each line, which takes microseconds since lines that are that many occur rarely."""


@dataclass(frozen=True, slots=True)
class LineChange:
    """Old lines, from `start` to before `end`, in whose place new ones are."""

    start: int
    end: int
    new_start: int
    new_end: int


def list_line_changes(old: Sequence[str], new: Sequence[str]) -> list[LineChange]:
    """Return the fewest changed lines, in order; lines are equal between two changes.

    20,000 lines on each side take up to 0.3 s: call it in a thread.
    """
    shorter = min(len(old), len(new))
    head = count_shared(old, new)
    tail = min(count_shared(reversed(old), reversed(new)), shorter - head)
    old_end, new_end = len(old) - tail, len(new) - tail
    matches = _match_lines(old[head:old_end], new[head:new_end])
    changes: list[LineChange] = []
    start, new_start = head, head
    for old_at, new_at in [*((i + head, j + head) for i, j in matches), (old_end, new_end)]:
        if old_at > start or new_at > new_start:
            changes.append(LineChange(start, old_at, new_start, new_at))
        start, new_start = old_at + 1, new_at + 1
    return changes


def format_unified_diff(old: Sequence[str], new: Sequence[str], context: int) -> Iterator[str]:
    """Return the lines of a unified diff, without the two that name files.

    Args:
        old: lines without their ends.
        new: lines without their ends.
        context: number of equal lines around changes.
    """
    hunk: list[LineChange] = []
    for change in list_line_changes(old, new):
        if hunk and change.start - hunk[-1].end > 2 * context:
            yield from _format_hunk(old, new, hunk, context)
            hunk = []
        hunk.append(change)
    if hunk:
        yield from _format_hunk(old, new, hunk, context)


def _format_hunk(
    old: Sequence[str], new: Sequence[str], hunk: Sequence[LineChange], context: int
) -> Iterator[str]:
    before = min(context, hunk[0].start)
    after = min(context, len(old) - hunk[-1].end)
    start, end = hunk[0].start - before, hunk[-1].end + after
    new_range = _format_range(hunk[0].new_start - before, hunk[-1].new_end + after)
    yield f"@@ -{_format_range(start, end)} +{new_range} @@"
    at = start
    for change in hunk:
        yield from (f" {line}" for line in old[at : change.start])
        yield from (f"-{line}" for line in old[change.start : change.end])
        yield from (f"+{line}" for line in new[change.new_start : change.new_end])
        at = change.end
    yield from (f" {line}" for line in old[at:end])


def _format_range(start: int, end: int) -> str:
    """Return the lines of a side in a hunk's head; none are named by the line before."""
    if end - start == 1:
        return str(end)
    return f"{start + 1 if end > start else start},{end - start}"


def _match_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indexes of the lines of a longest common subsequence, in order."""
    common = set(old) & set(new)
    old_at = [index for index, line in enumerate(old) if line in common]
    new_at = [index for index, line in enumerate(new) if line in common]
    found = _match_common([old[index] for index in old_at], [new[index] for index in new_at])
    return [(old_at[i], new_at[j]) for i, j in found]


def _match_common(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Match lines of which each is on both sides.

    Bit `j` of row `i` is zero if new[: j + 1] has one line more in common with old[:i] than
    new[:j] has. A zero that the row before does not have is a match.
    """
    rows = _BitRows(old, new)
    step = isqrt(len(old)) + 1
    checkpoints = [(1 << len(new)) - 1]
    for start in range(0, len(old), step):
        checkpoints.append(rows.compute(checkpoints[-1], start, start + step)[-1])
    found: list[tuple[int, int]] = []
    width = len(new)  # of the new lines, the first ones that may still have a match
    for start in reversed(range(0, len(old), step)):
        checkpoints.pop()
        block = rows.compute(checkpoints[-1], start, start + step)
        for row in range(len(block) - 1, 0, -1):
            width = (~block[row] & ((1 << width) - 1)).bit_length()
            if not width:
                return found[::-1]
            if block[row - 1] >> (width - 1) & 1:
                found.append((start + row - 1, width - 1))
                width -= 1
    return found[::-1]


class _BitRows:
    """The rows of bits of two lists of lines."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self._old = old
        self._all = (1 << len(new)) - 1
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(new):
            self._places[line].append(place)
        self._mask = lru_cache(MAX_KEPT_MASKS)(self._make_mask)

    def _make_mask(self, line: str) -> int:
        """Return a bit for each place of a line."""
        return sum(1 << place for place in self._places[line])

    def compute(self, row: int, start: int, end: int) -> list[int]:
        """Return the row at `start`, which is given, and those up to `end`."""
        result = [row]
        for line in self._old[start:end]:
            met = row & self._mask(line)
            row = ((row + met) | (row ^ met)) & self._all
            result.append(row)
        return result
