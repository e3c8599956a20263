r"""Whole lines of a text: finding them, exactly or nearly, and replacing them.

A text is worked on as `text.split("\n")`: lines that may end in "\r", and a last one that is empty
if the text ends with a newline. That one is the end of the text, and no line that is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

MAX_TRIED_PLACES: Final = 20
"""Places that a pass looks at: a part that is there so often is ambiguous."""

_NUMBERED: Final = re.compile(r"\s*\d+(?:\t|→)")
_PLAIN_SIGNS: Final = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"',
        "–": "-", "—": "-", "‑": "-", "−": "-", "…": "...", "\u00a0": " ",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """Lines to replace, and those that are to stand there.

    Attributes:
        how: what of the given lines was left out: "without its line numbers"; "" if nothing.
    """

    old: list[str]
    new: list[str]
    how: str = ""


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Lines that match: with `indent` more than the part, or `lacks` less."""

    start: int
    end: int
    indent: str = ""
    lacks: str = ""


def list_parts(old: Sequence[str], new: Sequence[str]) -> Iterator[Part]:
    """Yield a part as it is given, then in other forms that can be meant.

    Files have numbered lines, too: that numbers are those of a listing shows when the lines are
    there without them alone.
    """
    given = Part(list(old), list(new))
    bare = _without_numbers(given.old)
    numberless = Part(bare, _without_numbers(given.new), "without its line numbers")
    for part in (given, numberless) if bare != given.old else (given,):
        yield part
        trimmed = _without_blank_end(part)
        if len(trimmed.old) < len(part.old):
            yield trimmed


def _without_numbers(lines: Sequence[str]) -> list[str]:
    """Remove line numbers, as reading shows them, if every line begins with one."""
    if any(lines) and all(_NUMBERED.match(line) for line in lines if line):
        return [_NUMBERED.sub("", line, count=1) for line in lines]
    return list(lines)


def _without_blank_end(part: Part) -> Part:
    """Remove blank lines at the end; from what replaces them no more than from them."""
    old, new = list(part.old), list(part.new)
    if not _has_text(old):
        return part
    while not old[-1].strip():
        old.pop()
        if new and not new[-1].strip():
            new.pop()
    return Part(old, new, ", ".join(filter(None, (part.how, "without blank lines at its end"))))


class SearchedLines:
    """Lines of a text in which parts are looked for.

    What a pass makes of the lines is made once. Each search is one in one string: to compare line
    by line takes, of equal lines, their number times that of the part.
    """

    def __init__(self, lines: Sequence[str], start: int = 0) -> None:
        """Search the lines of a text from an index on."""
        end = len(lines) - 1 if lines[-1] == "" else len(lines)
        self.lines = lines[start:end]
        self.start = start
        self._forms: dict[_Form, str] = {}

    def find_same(self, part: Sequence[str], *, everywhere: bool = False) -> list[LinePlace]:
        """Find lines that are the same, whatever ends them.

        Args:
            part: the lines.
            everywhere: find all places, of which no one begins within the one before it.
        """
        if not everywhere:
            return self._find(_join_same, part)
        step = len(_join_same(part)) - 1
        return self._find(_join_same, part, most=len(self.lines), step=step)

    def find_without_spaces(self, part: Sequence[str]) -> list[LinePlace]:
        """Find lines that are the same but for spaces at their ends."""
        return self._find(_join_without_spaces, part) if _has_text(part) else []

    def find_with_plain_signs(self, part: Sequence[str]) -> list[LinePlace]:
        """Find lines that are the same but for quotes, dashes, and spaces at their ends."""
        return self._find(_join_with_plain_signs, part) if _has_text(part) else []

    def find_indented(self, part: Sequence[str]) -> list[LinePlace]:
        """Find lines that are the part's with one indent more, or less, on all."""
        if not _has_text(part):
            return []
        wanted = [line.rstrip() for line in part]
        first = next(number for number, line in enumerate(wanted) if line)
        found = []
        for place in self._find(_join_stripped, part):
            window = [line.rstrip() for line in self.lines[self._slice(place)]]
            more = len(window[first]) - len(wanted[first])
            indent = window[first][:more] if more > 0 else ""
            lacks = wanted[first][:-more] if more < 0 else ""
            moved = [indent + line[len(lacks) :] if line else "" for line in wanted]
            if window == moved and all(line.startswith(lacks) for line in wanted if line):
                found.append(replace(place, indent=indent, lacks=lacks))
        return found

    def _slice(self, place: LinePlace) -> slice:
        return slice(place.start - self.start, place.end - self.start)

    def _find(
        self, form: _Form, part: Sequence[str], *, most: int = MAX_TRIED_PLACES, step: int = 1
    ) -> list[LinePlace]:
        """Return the first places where the lines have a form of the part."""
        if form not in self._forms:
            self._forms[form] = form(self.lines)
        found = count_lines_before(self._forms[form], form(part), most, step)
        return [LinePlace(self.start + at, self.start + at + len(part)) for at in found]


_Form: TypeAlias = Callable[[Sequence[str]], str]
"""Returns lines as a string, each between two newlines, without what a pass ignores."""


def _join(lines: Iterable[str]) -> str:
    return "\n".join(("", *lines, ""))


def _join_same(lines: Sequence[str]) -> str:
    return _join(lines).replace("\r\n", "\n")


def _join_without_spaces(lines: Sequence[str]) -> str:
    return _join(line.rstrip() for line in lines)


def _join_stripped(lines: Sequence[str]) -> str:
    return _join(line.strip() for line in lines)


def _join_with_plain_signs(lines: Sequence[str]) -> str:
    return _join(line.translate(_PLAIN_SIGNS).rstrip() for line in lines)


def _has_text(lines: Iterable[str]) -> bool:
    return any(line.strip() for line in lines)


def count_lines_before(text: str, part: str, most: int, step: int) -> list[int]:
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


PASSES: Final[tuple[tuple[str, Callable[[SearchedLines, Sequence[str]], list[LinePlace]]], ...]] = (
    ("", SearchedLines.find_same),
    ("but for spaces at line ends", SearchedLines.find_without_spaces),
    ("with another indent", SearchedLines.find_indented),
    ("but for quotes and dashes", SearchedLines.find_with_plain_signs),
)
"""Ways to find a part, each more tolerant than the one before it, and what is said of each."""


def put_lines(lines: Sequence[str], places: Sequence[LinePlace], part: Part) -> list[str]:
    """Return the lines with those of a part at its places, which are in order."""
    made: list[str] = []
    end = 0
    for place in places:
        new = _fit_lines(lines, place, part)
        if place.end == len(lines) and not new and place.start:
            new = [""]  # the line before keeps its end
        made += (*lines[end : place.start], *new)
        end = place.end
    return [*made, *lines[end:]]


def _fit_lines(lines: Sequence[str], place: LinePlace, part: Part) -> list[str]:
    """Return the new lines with the indent and the line ends of a place."""
    ending = _find_ending(lines, place.start)
    is_as_given = part.old == list(lines[place.start : place.end])
    if is_as_given and (not ending or part.old[0].endswith("\r")):
        return part.new
    new = []
    for line in part.new:
        line = line.removesuffix("\r")
        if line and place.lacks and line.startswith(place.lacks):
            line = line[len(place.lacks) :]
        new.append((place.indent + line if line else line) + ending)
    if new and place.end == len(lines):  # the last line has no end
        new[-1] = new[-1].removesuffix("\r")
    return new


def insert_lines(text: str, at: int, new: Sequence[str]) -> str:
    """Return a text with new lines after its first `at` ones, which end as those do."""
    lines = text.split("\n")
    ending = _find_ending(lines, at - 1) if at else ""
    made = [line.removesuffix("\r") + ending if ending else line for line in new]
    if at == len(lines):  # the last line gets an end, as the new ones have
        lines[-1] += ending
        lines.append("")
    return "\n".join([*lines[:at], *made, *lines[at:]])


def _find_ending(lines: Sequence[str], index: int) -> str:
    r"""Return what a line has before its newline: "\r" or "".

    The last line of a text has none: the one before it counts.
    """
    index = min(index, len(lines) - 2)
    return "\r" if index >= 0 and lines[index].endswith("\r") else ""
