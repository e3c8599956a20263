"""Which of two versions of a toolset is the later one, if they say so."""

from __future__ import annotations

import re
from typing import Final

_NUMBERS: Final = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)((?:[^0-9.].*)?)", re.DOTALL)
"""Numbers with dots between them, and what follows: `-rc1`, `b2`, `+local`."""


def compare_versions(before: str, after: str) -> int | None:
    """Return 1 if a version is later than the one before, -1 if earlier, 0 if equal.

    None if they do not say: without numbers at the start, or with the same numbers and something
    different behind them, such as 1.0-rc1 and 1.0, whose order each author decides.
    """
    if before == after:
        return 0
    old, new = _NUMBERS.fullmatch(before), _NUMBERS.fullmatch(after)
    if old is None or new is None:
        return None
    old_numbers, new_numbers = _read_numbers(old[1]), _read_numbers(new[1])
    if old_numbers == new_numbers:
        return 0 if old[2] == new[2] else None
    return 1 if new_numbers > old_numbers else -1


def _read_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at the end: 1.0 is 1."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and not numbers[-1]:
        del numbers[-1]
    return tuple(numbers)
