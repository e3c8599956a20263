"""Search of a text by a regular expression, with the places that match.

The engine is RE2: it takes time linear in the text for every pattern, and lets other threads run
while it matches. It knows neither references back nor assertions about what is around.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import re2

from sshwarma.common.finish import StoppedError
from sshwarma.common.limits import MAX_LINE_MATCHES, MAX_TEXT_MATCH_STEPS, MEMORY_SEARCH_SECONDS
from sshwarma.common.lines import iterate_text_lines
from sshwarma.common.shorten import shorten_name
from sshwarma.tools.patterns import measure_search, search_error
from sshwarma.world.errors import Invalid, TimedOut

_UNKNOWN_FORMS: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=")

BOLD: Final = "\x1b[1m"
NOT_BOLD: Final = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line that matches, without its end.

    Attributes:
        number: of the line, from 1.
        spans: where the pattern matches in it, start and end; without empty matches.
    """

    number: int
    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def highlighted(self) -> str:
        """The line with what matches between the signs of a terminal for bold."""
        parts, last = [], 0
        for start, end in self.spans:
            parts += [self.text[last:start], BOLD, self.text[start:end], NOT_BOLD]
            last = end
        return "".join([*parts, self.text[last:]])


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The lines of a text that match.

    Attributes:
        lines: how many lines the text has.
        max_characters: characters of a line that were searched, the first ones.
        has_cut_lines: whether some line is longer.
    """

    found: tuple[MatchedLine, ...]
    lines: int
    max_characters: int
    has_cut_lines: bool


class TextPattern:
    """A regular expression that is searched for.

    Raises:
        Invalid: if it is empty, too large, or no regular expression that the engine knows.
    """

    def __init__(self, pattern: str) -> None:
        size = measure_search(pattern)
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except re2.error as error:
            if _UNKNOWN_FORMS.search(pattern):
                raise Invalid(
                    f"pattern: {shorten_name(pattern)} has a reference back or looks around, which"
                    " this search does not know.",
                    hint="Use a pattern without (?=…), (?!…), (?<…) and \\1.",
                ) from error
            raise search_error(pattern, _read_reason(error)) from error
        self.max_characters = MAX_TEXT_MATCH_STEPS // (int(size) + 1)

    def search(self, text: str, stop: threading.Event) -> TextMatches:
        """Return the lines of a text that match. It takes a while: run it in a thread.

        Raises:
            TimedOut: if it takes longer than MEMORY_SEARCH_SECONDS.
            StoppedError: when `stop` is set.
        """
        deadline = time.monotonic() + MEMORY_SEARCH_SECONDS
        found: list[MatchedLine] = []
        number, has_cut_lines = 0, False
        for number, (start, end, _) in enumerate(iterate_text_lines(text), 1):
            has_cut_lines = has_cut_lines or end - start > self.max_characters
            line = text[start : min(end, start + self.max_characters)]
            spans: list[tuple[int, int]] = []
            matches = False
            for span in self._find_spans(line):
                matches = True
                if span[1] > span[0]:
                    spans.append(span)
                _check_time(deadline, stop)
                if len(spans) >= MAX_LINE_MATCHES:
                    break
            if matches:
                found.append(MatchedLine(number, text[start:end], tuple(spans)))
            _check_time(deadline, stop)
        return TextMatches(tuple(found), number, self.max_characters, has_cut_lines)

    def _find_spans(self, line: str) -> Iterator[tuple[int, int]]:
        for match in self._compiled.finditer(line):
            yield match.span()


def _check_time(deadline: float, stop: threading.Event) -> None:
    if stop.is_set():
        raise StoppedError
    if time.monotonic() > deadline:
        raise TimedOut(
            f"The search timed out after {MEMORY_SEARCH_SECONDS:g} s.",
            hint="Give a pattern that matches less often, or search a part of the text.",
        )


def _read_reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return text.rstrip(".") or "it cannot be compiled"
