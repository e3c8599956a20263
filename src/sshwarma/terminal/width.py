"""Display width of text, and grapheme cluster boundaries where it may be cut.

Every width is the sum over `split_clusters`, so cutting, wrapping and cursor placement agree for
any text. Text that may hold control characters passes `escape_controls` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from wcwidth import iter_graphemes, wcswidth

MAX_COMBINING_MARKS: Final = 4
"""Combining marks kept on one base character; the others are dropped (see `escape`)."""

MAX_CLUSTER_CODE_POINTS: Final = 24
"""Code points in one cluster. The longest emoji sequence in use has 10."""

_MAX_LOOKBACK_CODE_POINTS: Final = 2 * MAX_CLUSTER_CODE_POINTS


def split_clusters(text: str) -> Iterator[str]:
    """Yield the cursor steps of a text: grapheme clusters at most two columns wide.

    A wider cluster (a run of Hangul initials), or one longer than MAX_CLUSTER_CODE_POINTS, is
    split into code points, so that every piece fits in every row.
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
    """Return the columns of one cluster: 0, 1 or 2. A control character counts as 0."""
    return min(2, max(0, wcswidth(cluster)))


def text_width(text: str) -> int:
    """Return the columns of a text on one row."""
    if text.isascii():
        return len(text)
    return sum(map(cluster_width, split_clusters(text)))


def cut_to_width(text: str, columns: int, mark: str = "…") -> str:
    """Cut a text to `columns`, with `mark` at the end if it is cut."""
    if text_width(text) <= columns:
        return text
    room = columns - text_width(mark)
    if room < 0:
        mark, room = "", columns
    if text.isascii():
        return text[:room] + mark
    clusters: list[str] = []
    for cluster in split_clusters(text):
        room -= cluster_width(cluster)
        if room < 0:
            break
        clusters.append(cluster)
    return "".join(clusters) + mark


def cluster_end(text: str, at: int) -> int:
    """Return the end of the cluster that begins at `at`, at most the text's length."""
    end = min(at + _MAX_LOOKBACK_CODE_POINTS, len(text))
    if at + 1 >= end or text[at : at + 2].isascii():
        return min(at + 1, len(text))
    return at + len(next(iter_graphemes(text[at:end])))


def cluster_start(text: str, at: int) -> int:
    """Return the start of the cluster that ends at `at`, at least 0.

    Looks back only to the nearest ASCII character, at most 2 * MAX_CLUSTER_CODE_POINTS: the cost
    of a step does not grow with the line.
    """
    if at <= 1 or text[at - 2 : at].isascii():
        return max(0, at - 1)
    floor = max(0, at - _MAX_LOOKBACK_CODE_POINTS)
    start = at - 1
    while start > floor and not text[start].isascii():
        start -= 1
    previous = start
    for cluster in iter_graphemes(text[start:at]):
        previous, start = start, start + len(cluster)
    return previous


def snap_to_boundary(text: str, at: int) -> int:
    """Return `at` if it is a cluster boundary, else the end of its cluster."""
    if at <= 0 or at >= len(text) or text[at].isascii():
        return max(0, min(at, len(text)))
    start = cluster_start(text, at)
    while start < at:
        start = cluster_end(text, start)
    return start
