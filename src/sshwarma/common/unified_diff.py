"""Unified diffs, as `diff -u` writes them, applied to one text.

A hunk is looked for where its header says, then at the nearest place before or after it. Its lines
must be there as they are; only the ends of lines may differ, and stay those of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sshwarma.common.lines import split_text_lines
from sshwarma.common.shorten import shorten_name

_HEADER: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@.*")
_NO_END: Final = "\\"
_FILE_HEADERS: Final = ("--- ", "+++ ", "diff ", "index ", "*** ")

MAX_HUNK_COMPARISONS: Final = 2_000_000
"""Lines compared to find the places of all hunks: they are compared in the order of distance, and a
diff of a text that was changed much could compare all with all."""


class DiffError(ValueError):
    """A diff that cannot be read, or does not fit the text; the message says where."""


@dataclass(slots=True)
class Hunk:
    """Lines to keep, remove and add, without their ends.

    Attributes:
        start: number of the first line in the old text, as the header says, from 1; 0 if the hunk
            has no old lines and stands at the beginning.
        lines: each with its sign: a space, - or +.
        removes_end: whether the last line that is added has no end.
    """

    start: int
    lines: list[tuple[str, str]] = field(default_factory=list)
    removes_end: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that must be in the old text."""
        return [text for sign, text in self.lines if sign != "+"]


@dataclass(frozen=True, slots=True)
class Patched:
    """A text with a diff applied: how many hunks, and how far from their numbers.

    Attributes:
        moves: of each hunk that was found elsewhere, its number and the lines between.
    """

    text: str
    hunks: int
    moves: tuple[tuple[int, int], ...]


class _DiffReader:
    """Reads a diff line by line into hunks."""

    def __init__(self) -> None:
        self.hunks: list[Hunk] = []
        self._left_old = self._left_new = 0

    @property
    def is_in_hunk(self) -> bool:
        """Whether the header of the last hunk counts more lines."""
        return self._left_old > 0 or self._left_new > 0

    def take(self, number: int, line: str) -> None:
        """Read one line."""
        if line.startswith(_NO_END):
            if self.hunks and self.hunks[-1].lines:
                self.hunks[-1].removes_end = self.hunks[-1].lines[-1][0] == "+"
        elif self.is_in_hunk:
            self._take_hunk_line(number, line)
        elif found := _HEADER.fullmatch(line):
            self.hunks.append(Hunk(int(found[1])))
            self._left_old = int(found[2]) if found[2] is not None else 1
            self._left_new = int(found[4]) if found[4] is not None else 1
        elif line.strip() and not line.startswith(_FILE_HEADERS):
            raise DiffError(f"line {number} is no header of a hunk: {shorten_name(line)!r}")

    def _take_hunk_line(self, number: int, line: str) -> None:
        sign, text = (line[0], line[1:]) if line else (" ", "")
        if sign not in " -+":
            raise DiffError(f"line {number} has no space, - or + first: {shorten_name(line)!r}")
        self.hunks[-1].lines.append((sign, text))
        self._left_old -= sign != "+"
        self._left_new -= sign != "-"


def parse_unified_diff(diff: str) -> list[Hunk]:
    """Return the hunks of a diff of one text.

    Raises:
        DiffError: naming the line that does not fit.
    """
    reader = _DiffReader()
    for number, line in enumerate(diff.split("\n"), 1):
        reader.take(number, line.removesuffix("\r"))
    if not reader.hunks:
        raise DiffError("it has no hunk, which begins with a line such as @@ -1,3 +1,4 @@")
    if reader.is_in_hunk:
        raise DiffError(f"hunk {len(reader.hunks)} ends before the lines that its header counts")
    return reader.hunks


def apply_unified_diff(text: str, diff: str) -> Patched:
    """Return a text with a diff applied, all of it or nothing.

    Raises:
        DiffError: if the diff cannot be read, or a hunk does not fit.
    """
    hunks = parse_unified_diff(diff)
    lines = split_text_lines(text)
    bare = [line.rstrip("\r\n") for line in lines]
    end = _find_usual_end(lines)
    moves: list[tuple[int, int]] = []
    made: list[str] = []
    at, drift, budget = 0, 0, MAX_HUNK_COMPARISONS
    for number, hunk in enumerate(hunks, 1):
        old = hunk.old
        wanted = max(hunk.start - bool(old), 0) + drift
        place, used = _find_place(bare, old, wanted, at, budget)
        budget -= used
        if place is None:
            raise DiffError(
                f"hunk {number} (line {hunk.start}) does not fit: its lines are not in the text"
                + (" after those of the hunk before" if number > 1 else "")
            )
        if place != wanted:
            moves.append((number, place - wanted))
            drift += place - wanted
        made += lines[at:place]
        made += _make_lines(lines, place, hunk, end)
        at = place + len(old)
    made += lines[at:]
    return Patched(_join_lines(made, end), len(hunks), tuple(moves))


def _find_place(
    bare: Sequence[str], old: Sequence[str], wanted: int, first: int, budget: int
) -> tuple[int | None, int]:
    """Return where lines are, and how many were compared."""
    if not old:
        return min(max(wanted, first), len(bare)), 0
    last = len(bare) - len(old)
    used, near = 0, min(max(wanted, first), max(last, first))
    for distance in range(max(near - first, last - near, 0) + 1):
        for place in dict.fromkeys((near - distance, near + distance)):
            if not first <= place <= last:
                continue
            same = _count_same(bare, old, place, budget - used)
            used += same + 1
            if used > budget:
                raise DiffError("its hunks are too far from their places to be looked for")
            if same == len(old):
                return place, used
    return None, used


def _count_same(bare: Sequence[str], old: Sequence[str], place: int, most: int) -> int:
    """Return how many lines are the same from a place on, up to `most` and one."""
    for count, line in enumerate(old):
        if count > most or bare[place + count] != line:
            return count
    return len(old)


def _make_lines(lines: Sequence[str], place: int, hunk: Hunk, end: str) -> list[str]:
    """Return the new lines of a hunk; those that stay are as they were."""
    made: list[str] = []
    at = place
    for sign, text in hunk.lines:
        if sign == " ":
            made.append(lines[at])
        elif sign == "+":
            made.append(text + end)
        at += sign != "+"
    if hunk.removes_end and made:
        made[-1] = made[-1].removesuffix(end)
    return made


def _find_usual_end(lines: Sequence[str]) -> str:
    """Return the end of the first line; a newline without lines."""
    for line in lines[:1]:
        return line[len(line.rstrip("\r\n")) :] or "\n"
    return "\n"


def _join_lines(lines: Sequence[str], end: str) -> str:
    """Join lines; one without an end that is not the last gets the usual one."""
    return "".join(
        line if line.endswith(("\n", "\r")) or number == len(lines) else line + end
        for number, line in enumerate(lines, 1)
    )
