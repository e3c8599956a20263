"""Some lines of a text, without making all of them.

To split a text of millions of lines takes a third of a second, in which no other thread runs, the
event loop neither. Here a text is searched in pieces, and others have their turn between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sshwarma.common.units import KIB

_PIECE_CHARACTERS: Final = 64 * KIB


def count_lines(text: str) -> int:
    """Return the number of lines; a newline at the end begins no further one."""
    ends = sum(text.count("\n", start, end) for start, end in _list_pieces(text))
    return ends + (bool(text) and not text.endswith("\n"))


def find_line(text: str, number: int) -> int:
    """Return where a line begins; the end of the text if it has fewer lines.

    Args:
        text: the text.
        number: of the line; the first is 1.
    """
    left = number - 1
    for start, end in _list_pieces(text):
        ends = text.count("\n", start, end) if left else 0
        if ends >= left:
            at = start
            for _ in range(left):
                at = text.index("\n", at) + 1
            return at
        left -= ends
    return len(text)


def iterate_lines(text: str, start: int) -> Iterator[tuple[int, int]]:
    r"""Yield where each line from a place on begins and ends, without "\n" or "\r\n"."""
    while start < len(text):
        newline = text.find("\n", start)
        end = len(text) if newline < 0 else newline
        yield start, end - text.endswith("\r", start, end)
        start = end + 1


def _list_pieces(text: str) -> Iterator[tuple[int, int]]:
    for start in range(0, len(text), _PIECE_CHARACTERS):
        yield start, min(start + _PIECE_CHARACTERS, len(text))
