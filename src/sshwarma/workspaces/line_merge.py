"""Merges of texts that two sides have changed in different lines.

The usual algorithm of three ways, as of diff3: changes that touch each other are a conflict. The
package for it, merge3, has a licence that this program could not be given away with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sshwarma.common.limits import MAX_COMPARED_BYTES, MAX_MERGED_LINES
from sshwarma.common.line_diff import list_line_changes
from sshwarma.workspaces.text_diff import decode_file


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Lines of the base, from `start` to before `end`, that one side has replaced."""

    start: int
    end: int
    lines: tuple[str, ...]


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return a text with the changes of both sides; None if there is no such text.

    That is so if one of the three is no text or too large, or both changed the same lines, or
    lines that touch. Takes up to 0.1 s: call it in a thread.
    """
    sides = (base, ours, theirs)
    if max(map(len, sides)) > MAX_COMPARED_BYTES:
        return None
    texts = [text for text in map(decode_file, sides) if text is not None]
    if len(texts) < len(sides):
        return None
    lines = [text.splitlines(keepends=True) for text in texts]
    if max(map(len, lines)) > MAX_MERGED_LINES:
        return None
    merged = _merge_lines(*lines)
    return None if merged is None else "".join(merged).encode()


def _merge_lines(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> list[str] | None:
    waiting = [list(_list_replacements(base, side)) for side in (ours, theirs)]
    result: list[str] = []
    at = 0
    while any(waiting):
        first, other = sorted(
            waiting,
            key=lambda found: (found[0].start, found[0].end) if found else (len(base) + 1, 0),
        )
        chosen = first.pop(0)
        if other and other[0].start <= chosen.end and other.pop(0) != chosen:
            return None
        result += [*base[at : chosen.start], *chosen.lines]
        at = chosen.end
    return [*result, *base[at:]]


def _list_replacements(base: Sequence[str], side: Sequence[str]) -> Iterator[_Replacement]:
    for change in list_line_changes(base, side):
        lines = tuple(side[change.new_start : change.new_end])
        yield _Replacement(change.start, change.end, lines)
