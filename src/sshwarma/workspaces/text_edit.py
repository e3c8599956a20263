"""Replacing a part of a text: exactly, or but for spacing or punctuation.

A part that is not there exactly is looked for in passes, each more tolerant than the one before it.
Only a single place counts, and the result says which pass found it. A place is never chosen by
likeness: that would change the wrong lines.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sshwarma.common.shorten import join_with_rest
from sshwarma.world.errors import Conflict, Invalid, NotFound

MAX_NAMED_LINES: Final = 10
"""Line numbers that a refusal of an ambiguous part names."""

NEAR_LINES: Final = 3
"""Lines shown before and after the nearest one, and around a change."""

MIN_LIKENESS: Final = 0.6
"""Likeness of a line, from 0 to 1, with which it is shown as the nearest."""

MAX_TRIED_PLACES: Final = 20
"""Places that a pass looks at: a part that is there so often is ambiguous."""

MAX_LIKENED_LINES: Final = 20_000
"""Lines of a file that may be the nearest; to compare a line takes some 20 µs."""

MAX_MEASURED_LINES: Final = 1_000
"""Lines whose likeness is measured in full, which takes up to a millisecond each."""

MAX_LIKENED_CHARACTERS: Final = 100
"""Characters of a line that count for its likeness; the time grows with their square."""

_NUMBERED: Final = re.compile(r"^\s*\d+(?:\t|→)")
_PLAIN_SIGNS: Final = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"',
        "–": "-", "—": "-", "‑": "-", "−": "-", "…": "...", "\u00a0": " ",
    }
)  # fmt: skip


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
    old, new = _without_numbers(old), _without_numbers(new)
    if "\r\n" in text and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    if old == new:
        raise Invalid("old and new are the same: nothing would change.")
    count = text.count(old)
    if count > 1 and not everywhere:
        raise _ambiguous_error(_find_first_lines(text, old), count)
    if count:
        replaced = text.replace(old, new) if everywhere else text.replace(old, new, 1)
        line = text.count("\n", 0, text.index(old)) + 1
        return Replacement(replaced, count, line, new.count("\n") + 1)
    for how, find in _PASSES:
        found = find(text.split("\n"), old.rstrip("\r\n").split("\n"))
        if len(found) > 1:
            raise _ambiguous_error([place.start + 1 for place in found], len(found))
        if found:
            return _replace_lines(text, found[0], old, new, how)
    raise _missing_error(text, old, new)


@dataclass(frozen=True, slots=True)
class _Place:
    """Lines that match: with `indent` more than the part, or `lacks` less."""

    start: int
    end: int
    indent: str = ""
    lacks: str = ""


def _find_normalized(normalize: Callable[[str], str]) -> Callable[..., list[_Place]]:
    def find(lines: Sequence[str], part: Sequence[str]) -> list[_Place]:
        wanted = [normalize(line) for line in part]
        have = [normalize(line) for line in lines]
        if not any(wanted):
            return []
        return [_Place(start, start + len(wanted)) for start in _find_blocks(have, wanted)]

    return find


def _find_blocks(lines: Sequence[str], block: Sequence[str]) -> list[int]:
    """Return the first MAX_TRIED_PLACES places where a block of lines begins.

    One search in one string: to compare line by line takes, of equal lines, their number times that
    of the block.
    """
    text, part = ("\n".join(("", *some, "")) for some in (lines, block))
    return _count_lines_before(text, part, MAX_TRIED_PLACES, 1)


def _find_indented(lines: Sequence[str], part: Sequence[str]) -> list[_Place]:
    """Find lines that are the part's with one indent more, or less, on all."""
    wanted = [line.rstrip() for line in part]
    if not any(wanted):
        return []
    first = next(number for number, line in enumerate(wanted) if line)
    found = []
    for start in _find_blocks([line.strip() for line in lines], [line.strip() for line in part]):
        have = lines[start + first].rstrip()
        more = len(have) - len(wanted[first])
        indent = have[:more] if more > 0 else ""
        lacks = wanted[first][:-more] if more < 0 else ""
        moved = [indent + line[len(lacks) :] if line else "" for line in wanted]
        window = [line.rstrip() for line in lines[start : start + len(wanted)]]
        if window == moved and all(line.startswith(lacks) for line in wanted if line):
            found.append(_Place(start, start + len(wanted), indent, lacks))
    return found


_PASSES: Final = (
    ("but for spaces at line ends", _find_normalized(str.rstrip)),
    ("with another indent", _find_indented),
    (
        "but for quotes and dashes",
        _find_normalized(lambda line: line.translate(_PLAIN_SIGNS).rstrip()),
    ),
)


def _replace_lines(text: str, place: _Place, old: str, new: str, how: str) -> Replacement:
    lines = text.split("\n")
    ending = "\r" if lines[place.start].endswith("\r") else ""
    ends_line = old.endswith("\n")
    body = new.replace("\r\n", "\n")
    body = body.removesuffix("\n") if ends_line else body
    new_lines = []
    for line in body.split("\n") if body or not ends_line else []:
        if line and place.lacks and line.startswith(place.lacks):
            line = line[len(place.lacks) :]
        new_lines.append((place.indent + line if line else line) + ending)
    replaced = "\n".join([*lines[: place.start], *new_lines, *lines[place.end :]])
    return Replacement(replaced, 1, place.start + 1, len(new_lines), how)


def _without_numbers(part: str) -> str:
    """Remove line numbers, as reading shows them, if every line begins with one."""
    lines = part.split("\n")
    if all(_NUMBERED.match(line) for line in lines if line) and any(lines):
        return "\n".join(_NUMBERED.sub("", line) for line in lines)
    return part


def _find_first_lines(text: str, part: str) -> list[int]:
    """Return the numbers of the first MAX_NAMED_LINES lines in which a part begins."""
    return [1 + line for line in _count_lines_before(text, part, MAX_NAMED_LINES, len(part))]


def _count_lines_before(text: str, part: str, most: int, step: int) -> list[int]:
    """Return how many lines end before each of the first places of a part.

    Args:
        text: in which it is looked for.
        part: what is looked for.
        most: number of places.
        step: characters from a place to where the next is looked for.
    """
    found: list[int] = []
    number, counted, place = 0, 0, text.find(part)
    while place >= 0 and len(found) < most:
        number, counted = number + text.count("\n", counted, place), place
        found.append(number)
        place = text.find(part, place + step)
    return found


def _ambiguous_error(numbers: Sequence[int], total: int) -> Conflict:
    """Return the refusal of a part that is there `total` times."""
    named = join_with_rest([str(number) for number in numbers], MAX_NAMED_LINES, total=total)
    return Conflict(
        f"old is there {total} times: at lines {named}.",
        hint="Give more of the lines around it, or replace all.",
    )


def _missing_error(text: str, old: str, new: str) -> NotFound:
    if new and new in text:
        line = text.count("\n", 0, text.index(new)) + 1
        return NotFound(f"old is not in the file. new is, at line {line}: it may be done already.")
    wanted = next((line for line in old.split("\n") if line.strip()), "")
    lines = text.split("\n")
    number = _find_nearest(wanted, lines)
    if number is None:
        return NotFound("old is not in the file.", hint="Read the file again.")
    shown = number_lines(lines, max(0, number - NEAR_LINES), number + NEAR_LINES + 1)
    return NotFound(f"old is not in the file. The nearest lines are:\n{shown}")


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
