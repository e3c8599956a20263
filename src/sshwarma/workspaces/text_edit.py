"""Replacing a part of a text: exactly, or but for spacing or punctuation.

A part that is not there exactly is looked for as whole lines, in passes, each more tolerant than
the one before it. Only a single place counts, and the result says which pass found it. A place is
never chosen by likeness: that would change the wrong lines.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sshwarma.common.shorten import join_with_rest
from sshwarma.workspaces.line_edit import (
    PASSES,
    SearchedLines,
    count_lines_before,
    list_parts,
    put_lines,
)
from sshwarma.world.errors import Conflict, Invalid, NotFound

MAX_NAMED_LINES: Final = 10
"""Line numbers that a refusal of an ambiguous part names."""

NEAR_LINES: Final = 3
"""Lines shown before and after the nearest one, and around a change."""

MIN_LIKENESS: Final = 0.6
"""Likeness of a line, from 0 to 1, with which it is shown as the nearest."""

MAX_LIKENED_LINES: Final = 20_000
"""Lines of a file that may be the nearest; to compare a line takes some 20 µs."""

MAX_MEASURED_LINES: Final = 1_000
"""Lines whose likeness is measured in full, which takes up to a millisecond each."""

MAX_LIKENED_CHARACTERS: Final = 100
"""Characters of a line that count for its likeness; the time grows with their square."""

_MORE: Final = "Give more of the lines around it."
_MORE_OR_ALL: Final = "Give more of the lines around it, or replace all."


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text in which a part was replaced.

    Attributes:
        count: the number of places.
        line: the number of the first changed line, from 1.
        lines: how many lines the new part has there.
        how: how the part was found, if not exactly: "but for spaces at line ends".
    """

    text: str
    count: int
    line: int
    lines: int
    how: str = ""


def replace_part(text: str, old: str, new: str, *, everywhere: bool = False) -> Replacement:
    """Replace a part of a text, at its only place or everywhere.

    Raises:
        Invalid: if the part is empty, or equal to the new one.
        NotFound: if it is not there, with the nearest lines.
        Conflict: if it is there several times, with their lines.
    """
    if not old:
        raise Invalid("old: must not be empty.", hint="To write a whole file, give its content.")
    exact, made = old, new
    if "\r\n" in text and "\r\n" not in old:
        exact, made = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (exact, made))
    if exact == made:
        raise Invalid("old and new are the same: nothing would change.")
    count = text.count(exact)
    if count > 1 and not everywhere:
        raise _ambiguous_error(_find_first_lines(text, exact), count, _MORE_OR_ALL)
    if count:
        replaced = text.replace(exact, made) if everywhere else text.replace(exact, made, 1)
        line = text.count("\n", 0, text.index(exact)) + 1
        return Replacement(replaced, count, line, made.count("\n") + 1)
    hint = "Not all are the same: give each as it is there." if everywhere else _MORE_OR_ALL
    lines = text.split("\n")
    old_lines, new_lines = _split_parts(old, new)
    if found := _replace_lines(lines, old_lines, new_lines, hint=hint, everywhere=everywhere):
        return found
    done_at = text.find(new) if new else -1
    made_line = text.count("\n", 0, done_at) + 1 if done_at >= 0 else None
    raise _missing_error(lines, old_lines, new_lines, line=made_line)


def replace_lines(
    text: str, old: Sequence[str], new: Sequence[str], *, start: int = 0
) -> Replacement:
    """Replace lines of a text, at their only place.

    Args:
        text: the text.
        old: the lines to replace, without their ends; no part of a longer line is one of them.
        new: the lines that stand there instead.
        start: how many lines at the beginning of the text are not searched.

    Raises:
        NotFound: if the lines are not there, with the nearest ones.
        Conflict: if they are there several times, with the numbers of their lines.
    """
    lines = text.split("\n")
    if found := _replace_lines(lines, old, new, hint=_MORE, start=start):
        return found
    raise _missing_error(lines, old, new, start=start)


def _split_parts(old: str, new: str) -> tuple[list[str], list[str]]:
    """Return the lines of a part and of what replaces it.

    If the part ends with a newline, so does each of these lines, and nothing is no line.
    """
    if not old.endswith("\n"):
        return old.split("\n"), new.split("\n")
    new_lines = new.removesuffix("\n").split("\n") if new else []
    return old.removesuffix("\n").split("\n"), new_lines


def _replace_lines(
    lines: Sequence[str],
    old: Sequence[str],
    new: Sequence[str],
    *,
    hint: str,
    start: int = 0,
    everywhere: bool = False,
) -> Replacement | None:
    """Replace whole lines in the first pass that finds them; None if no pass does.

    `hint` says what to do if it finds several places.
    """
    searched = SearchedLines(lines, start)
    for part in list_parts(old, new):
        if part.how and part.old == part.new:
            continue
        for how, find in PASSES:
            found = find(searched, part.old)
            if len(found) > 1 and everywhere and not how:
                found = searched.find_same(part.old, everywhere=True)
            elif len(found) > 1:
                numbers = [place.start + 1 for place in found]
                raise _ambiguous_error(numbers, len(found), hint)
            if found:
                text = "\n".join(put_lines(lines, found, part))
                described = ", ".join(filter(None, (part.how, how)))
                first = found[0].start + 1
                return Replacement(text, len(found), first, len(part.new), described)
    return None


def _find_first_lines(text: str, part: str) -> list[int]:
    """Return the numbers of the first MAX_NAMED_LINES lines in which a part begins."""
    return [1 + line for line in count_lines_before(text, part, MAX_NAMED_LINES, len(part))]


def _ambiguous_error(numbers: Sequence[int], total: int, hint: str) -> Conflict:
    """Return the refusal of a part that is there `total` times."""
    named = join_with_rest([str(number) for number in numbers], MAX_NAMED_LINES, total=total)
    return Conflict(f"old is there {total} times: at lines {named}.", hint=hint)


def _missing_error(
    lines: Sequence[str],
    old: Sequence[str],
    new: Sequence[str],
    *,
    start: int = 0,
    line: int | None = None,
) -> NotFound:
    """Return the refusal of a part that is not in the lines from one on.

    Args:
        lines: of the text.
        old: the lines of the part.
        new: the lines that were to stand there.
        start: index of the first line that was searched.
        line: number of a line in which the new part is, if it is known already.
    """
    searched = SearchedLines(lines, start)
    parts = list(list_parts(old, new))
    if line is None:
        places = (
            place for part in parts if any(part.new) for place in searched.find_same(part.new)
        )
        first = next(places, None)
        line = first.start + 1 if first is not None else None
    if line is not None:
        return NotFound(f"old is not in the file. new is, at line {line}: it may be done already.")
    first_lines = (next((one for one in part.old if one.strip()), "") for part in parts)
    for wanted in dict.fromkeys(first_lines):
        if (number := _find_nearest(wanted, searched.lines)) is not None:
            shown = number_lines(
                searched.lines, max(0, number - NEAR_LINES), number + NEAR_LINES + 1, start + 1
            )
            return NotFound(f"old is not in the file. The nearest lines are:\n{shown}")
    return NotFound("old is not in the file.", hint="Read the file again.")


def _find_nearest(wanted: str, lines: Sequence[str]) -> int | None:
    """Return the index of the line that is most like one, if any is like it."""
    if not wanted:
        return None
    matcher = difflib.SequenceMatcher(b=wanted[:MAX_LIKENED_CHARACTERS])
    nearest, likeness, measured = None, MIN_LIKENESS, 0
    for index, line in enumerate(lines[:MAX_LIKENED_LINES]):
        matcher.set_seq1(line[:MAX_LIKENED_CHARACTERS])
        if matcher.real_quick_ratio() < likeness or matcher.quick_ratio() < likeness:
            continue
        measured += 1
        ratio = matcher.ratio()
        if ratio > likeness or (nearest is None and ratio == likeness):
            nearest, likeness = index, ratio
        if ratio == 1.0 or measured == MAX_MEASURED_LINES:
            break
    return nearest


def number_lines(lines: Sequence[str], start: int, end: int, first: int = 1) -> str:
    """Return lines with their numbers: `    12<tab>text`.

    They are those from `start` to before `end`. `first` is the number of the first of all lines.
    """
    shown = enumerate(lines[start:end], first + start)
    return "\n".join(f"{number:6}\t{line}" for number, line in shown)
