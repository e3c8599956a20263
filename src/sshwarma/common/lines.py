r"""Lines of a text with any of the usual ends: "\n", "\r\n" and "\r".

Texts of a memory may have a million lines. They are found one by one, so that other threads have
their turn between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_END: Final = re.compile(r"\r\n|\n|\r")


def iterate_text_lines(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield where each line begins, where its text ends, and where its end ends.

    An end of a line at the end of the text begins no further one.
    """
    start = 0
    for match in _END.finditer(text):
        yield start, match.start(), match.end()
        start = match.end()
    if start < len(text):
        yield start, len(text), len(text)


def split_text_lines(text: str) -> list[str]:
    """Return the lines of a text, each with its end."""
    return [text[start:end] for start, _, end in iterate_text_lines(text)]


def number_text_lines(text: str, first: int = 1, separator: str = " | ") -> str:
    """Return a text with the number before each line, all as wide as the last one.

    `first` is the number of the first line.
    """
    lines = split_text_lines(text)
    width = len(str(first + len(lines) - 1))
    return "".join(
        f"{number:>{width}}{separator}{line}" for number, line in enumerate(lines, first)
    )


def find_usual_end(text: str) -> str:
    """Return the end of a text's first line; a newline if it has none."""
    match = _END.search(text)
    return match[0] if match else "\n"


def insert_before_line(text: str, number: int, new: str) -> str:
    """Return a text with lines inserted before one, or at the end.

    What is inserted gets the end of a line if it has none, and so does a last line before it.
    """
    end = find_usual_end(text)
    new = new if not new or new.endswith(("\n", "\r")) else new + end
    at = len(text)
    for count, (start, _, _) in enumerate(iterate_text_lines(text), 1):
        if count == number:
            at = start
            break
    head = text[:at]
    if head and not head.endswith(("\n", "\r")):
        head += end
    return head + new + text[at:]


def replace_line_range(text: str, first: int, last: int, new: str) -> str:
    """Return a text with the lines from `first` to `last` replaced; "" deletes them.

    Raises:
        IndexError: if the text has fewer lines than `first`.
    """
    begin = stop = None
    has_end = True
    for count, (start, end, after) in enumerate(iterate_text_lines(text), 1):
        if count == first:
            begin = start
        if count <= last:
            stop, has_end = after, after > end
        else:
            break
    if begin is None or stop is None:
        raise IndexError(first)
    if new and has_end and not new.endswith(("\n", "\r")):
        new += find_usual_end(text)
    return text[:begin] + new + text[stop:]


def read_line_range(text: str, first: int, last: int | None) -> str:
    """Return the lines from `first` to `last`, or to the end; "" if there are fewer."""
    begin = None
    stop = len(text)
    for count, (start, _, after) in enumerate(iterate_text_lines(text), 1):
        if count == first:
            begin = start
        if last is not None and count == last:
            stop = after
            break
    return "" if begin is None else text[begin:stop]


def count_text_lines(text: str) -> int:
    """Return how many lines a text has."""
    return sum(1 for _ in iterate_text_lines(text))
