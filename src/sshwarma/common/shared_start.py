"""How much of their beginning two sequences share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from operator import eq


def count_shared(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many items, or letters, are equal before the first that differs."""
    return sum(takewhile(bool, map(eq, one, other)))
