r"""Patterns of JSON Schemas, matched with a bound on the work.

They come from strangers. The engine takes time linear in the text, but its program has a part for
each repetition that a pattern counts: `\w{200}` takes 130 ms to compile, and `(a{100}){100}` 1.3 s
to match. The engine holds Python's lock, so that a thread would not help: the size of a pattern is
estimated first. A pattern or a text over a limit is accepted; in a search, of a long line only the
first characters are matched.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema
from pydantic_core import ValidationError as PydanticError

from sshwarma.common.limits import (
    MAX_MATCH_STEPS,
    MAX_MATCHED_CHARACTERS,
    MAX_PATTERN_CHARACTERS,
    MAX_PATTERNS,
    MAX_PATTERNS_SIZE,
    MAX_SEARCH_PATTERN_SIZE,
    MAX_SEARCHED_LINE_CHARACTERS,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid, empty_error

_UNICODE_CLASS_SIZE: Final = 150  # compiling \w takes 1.4 ms, a letter less than 0.01
_RANGE_SIZE: Final = 5  # any character, or a set of them
_IGNORES_CASE: Final = re.compile(r"\(\?[a-zA-Z]*i")

_REPEATERS: Final = ("*", "+", "?")

_TOKENS: Final = re.compile(
    r"""
    (?P<unicode> \\[wWdDsSbB] | \\[pP](?:\{[^}]*\}|.) | \[:\^?\w+:\] )
    | (?P<coded> \\[xuU]\{[0-9a-fA-F]*\} )
    | \\(?P<escaped> . )
    | (?P<verbose> \(\?[a-zA-Z-]*x[a-zA-Z-]*[:)] )
    | \{(?P<from> \d* )(?P<to> ,\d* )?\}
    | (?P<plain> . )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class LineMatcher:
    """Says whether lines match a pattern, each with a bound on the work.

    Attributes:
        max_characters: characters of a line that are matched, the first ones; fewer for a larger
            pattern. A line that is longer is matched as if it ended there.
    """

    def __init__(self, validator: SchemaValidator, size: float) -> None:
        self._validator = validator
        self.max_characters = min(MAX_SEARCHED_LINE_CHARACTERS, MAX_MATCH_STEPS // (int(size) + 1))

    def matches(self, line: str) -> bool:
        """Return whether the first characters of a line match."""
        try:
            self._validator.validate_python(line[: self.max_characters])
        except PydanticError:
            return False
        return True


class PatternMatcher:
    """Matches the texts of one call against the patterns of its tool's schema."""

    def __init__(self) -> None:
        self._size_left = MAX_PATTERNS_SIZE
        self._characters_left = MAX_MATCHED_CHARACTERS
        self._steps_left = MAX_MATCH_STEPS
        self._sizes: dict[str, float] = {}

    def matches(self, pattern: str, text: str) -> bool:
        """Return whether a text matches a pattern, or either is over a limit of one call."""
        if len(text) >= self._characters_left:
            return True
        if pattern not in self._sizes and len(self._sizes) < MAX_PATTERNS:
            self._sizes[pattern] = self._take_pattern(pattern)
        size = self._sizes.get(pattern, math.inf)
        steps = size * (len(text) + 1)
        if steps > self._steps_left:
            return True
        self._steps_left -= int(steps)
        self._characters_left -= len(text) + 1
        matcher = _compile_pattern(pattern)
        if matcher is None:
            return True
        try:
            matcher.validate_python(text)
        except PydanticError:
            return False
        return True

    def _take_pattern(self, pattern: str) -> float:
        """Return a pattern's size; infinity if the call cannot have more of that size."""
        size = measure_pattern(pattern)
        if size > self._size_left:
            return math.inf
        self._size_left -= int(size)
        return size


def compile_search(pattern: str) -> LineMatcher:
    """Return what says whether a line matches a pattern, in linear time.

    Raises:
        Invalid: if the pattern is too large, or is no regular expression that the engine knows: it
            has neither references back nor assertions about what is around.
    """
    size = measure_search(pattern)
    try:
        matcher = _make_matcher(pattern)
    except SchemaError as error:
        raise search_error(pattern, _reason_of(error)) from error
    return LineMatcher(matcher, size)


def measure_search(pattern: str) -> float:
    """Return the size of a pattern that somebody searches for, as `measure_pattern`.

    Raises:
        Invalid: if it is empty or too large, or a bracket has no other.
    """
    if not pattern:
        raise empty_error("pattern")
    size, problem = _read_pattern(pattern)
    if problem:
        raise search_error(pattern, problem)
    if size > MAX_SEARCH_PATTERN_SIZE:
        raise Invalid("pattern: is too large.", hint="Give less of it, or fewer repetitions.")
    return size


def search_error(pattern: str, reason: str) -> Invalid:
    """Return the refusal of a pattern that the engine does not take."""
    return Invalid(
        f"pattern: {shorten_name(pattern)!r} is no regular expression that is known here:"
        f" {reason}.",
        hint="Put a backslash before signs such as ( [ { . * + ? that mean themselves.",
    )


def _reason_of(error: SchemaError) -> str:
    """Return why the engine refuses a pattern, without the drawing of it."""
    last = str(error).rpartition("\n")[2]
    return last.removeprefix("error: ").rstrip(".")


def measure_pattern(pattern: str) -> float:
    """Return about how many parts the engine's program for a pattern has, at least.

    Infinity for a pattern that is too long, or whose brackets do not match.
    """
    size, problem = _read_pattern(pattern)
    return math.inf if problem else size


def _read_pattern(pattern: str) -> tuple[float, str]:
    """Return the size of a pattern, and which bracket has no other; "" if none."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        return math.inf, ""
    # Without case, a set is compared with a table of Unicode.
    range_size = _UNICODE_CLASS_SIZE if _IGNORES_CASE.search(pattern) else _RANGE_SIZE
    sums: list[float] = [0]  # of the groups and sets that are open; the whole pattern is the first
    closers: list[str] = []
    last: float = 0  # the size of what a repetition repeats
    for token in _TOKENS.finditer(pattern):
        char = token["plain"]
        if token["verbose"]:
            return math.inf, ""  # comments may hold brackets
        if token["from"] is not None and _is_repetition(token):
            counts = (token["from"], (token["to"] or "")[1:])
            factor = max(1, *(int(count) for count in counts if count))
            # A choice of counts is one more part, also of what is repeated further: a{0,1}{0,1}...
            choice = 1 if token["to"] is not None else 0
            sums[-1] += last * (factor - 1) + choice
            last = last * factor + choice
            continue
        is_in_set = bool(closers) and closers[-1] == "]"
        if char == "[" or (char == "(" and not is_in_set):
            sums.append(range_size if char == "[" else 1)
            closers.append("]" if char == "[" else ")")
            last = 0
            continue
        if closers and char == closers[-1] and not _begins_set(pattern, token.start()):
            closers.pop()
            last = sums.pop()
        elif char == ")" and not is_in_set:
            return math.inf, "a ) closes nothing"
        elif char in _REPEATERS and not is_in_set:
            # One more part, for (a****...){400} has thousands. A count that follows repeats both.
            sums[-1] += 1
            last += 1
            continue
        else:
            last = _measure_token(token, range_size)
        sums[-1] += last
    if closers:
        return math.inf, f"a {'[' if closers[-1] == ']' else '('} is not closed"
    return sums[0], ""


def _is_repetition(token: re.Match[str]) -> bool:
    return bool(token["from"] or (token["to"] or "")[1:])


def _begins_set(pattern: str, at: int) -> bool:
    """Return whether a bracket is a member of the set that it seems to close."""
    return pattern[at] == "]" and re.search(r"\[\^?\Z", pattern[:at]) is not None


def _measure_token(token: re.Match[str], range_size: float) -> float:
    if token["unicode"]:
        return _UNICODE_CLASS_SIZE
    char = token["escaped"] or token["plain"] or ""
    is_range = token["coded"] or token["plain"] == "." or not char.isascii()
    return range_size if is_range else 1


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> SchemaValidator | None:
    """Return a matcher of linear time; None for an invalid or unsupported pattern."""
    try:
        return _make_matcher(pattern)
    except SchemaError:
        return None


def _make_matcher(pattern: str) -> SchemaValidator:
    """Return a matcher of linear time.

    Raises:
        SchemaError: if the engine refuses the pattern.
    """
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
