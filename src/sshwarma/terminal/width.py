"""How many columns text takes on a terminal, and where it may be cut.

Every measure is the sum over `split_clusters`, so cutting, wrapping and cursor placing agree with
each other whatever the text. Text that may hold control characters goes through `safe` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from wcwidth import iter_graphemes, wcswidth

MAX_COMBINING_MARKS: Final = 4
"""Combining marks kept on one base character; a tower of more is cut (see `safe`)."""

MAX_CLUSTER_CODE_POINTS: Final = 24
"""Code points in one cluster. The longest emoji sequence in use has 10."""

_MAX_LOOKBACK_CODE_POINTS: Final = 2 * MAX_CLUSTER_CODE_POINTS


def split_clusters(text: str) -> Iterator[str]:
    """The pieces of text a cursor steps over: grapheme clusters at most two columns wide.

    A cluster that would be wider (a run of Hangul initials) or longer than CLUSTER_MAX code
    points is given a code point at a time, so that every piece fits in every row.
    """
    if text.isascii():
        yield from text
        return
    for cluster in iter_graphemes(text):
        if len(cluster) == 1:
            yield cluster
        elif len(cluster) > MAX_CLUSTER_CODE_POINTS or wcswidth(cluster) > 2:
            yield from cluster
        else:
            yield cluster


@lru_cache(maxsize=4096)
def cluster_width(cluster: str) -> int:
    """Columns one cluster takes: 0, 1 or 2. A control character counts as 0."""
    return min(2, max(0, wcswidth(cluster)))


def text_width(text: str) -> int:
    """Columns the text takes on one row."""
    if text.isascii():
        return len(text)
    return sum(map(cluster_width, split_clusters(text)))


def clip_text(text: str, columns: int, mark: str = "…") -> str:
    """The text if it fits in `columns`, else its beginning with `mark` at the end."""
    if text_width(text) <= columns:
        return text
    room = columns - text_width(mark)
    if room < 0:
        mark, room = "", columns
    if text.isascii():
        return text[:room] + mark
    kept: list[str] = []
    for cluster in split_clusters(text):
        room -= cluster_width(cluster)
        if room < 0:
            break
        kept.append(cluster)
    return "".join(kept) + mark


def cluster_end(text: str, at: int) -> int:
    """Where the cluster that begins at `at` ends; the length of the text at its end."""
    end = min(at + _MAX_LOOKBACK_CODE_POINTS, len(text))
    if at + 1 >= end or text[at : at + 2].isascii():
        return min(at + 1, len(text))
    return at + len(next(iter_graphemes(text[at:end])))


def cluster_start(text: str, at: int) -> int:
    """Where the cluster that ends at `at` begins; 0 at the beginning.

    Looks back only as far as the nearest plain ASCII character or 2 * CLUSTER_MAX code points:
    the cost of a step does not grow with the line.
    """
    if at <= 1 or text[at - 2 : at].isascii():
        return max(0, at - 1)
    floor = max(0, at - _MAX_LOOKBACK_CODE_POINTS)
    start = at - 1
    while start > floor and not text[start].isascii():
        start -= 1
    last = start
    for cluster in iter_graphemes(text[start:at]):
        last, start = start, start + len(cluster)
    return last


def snap_to_boundary(text: str, at: int) -> int:
    """`at` if a cluster ends there, else the end of the cluster it falls into."""
    if at <= 0 or at >= len(text) or text[at].isascii():
        return max(0, min(at, len(text)))
    start = cluster_start(text, at)
    while start < at:
        start = cluster_end(text, start)
    return start
