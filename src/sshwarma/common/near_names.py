"""Near names: what a person who mistyped a name may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

MIN_SIMILARITY: Final = 0.75
"""Similarity of a name that is suggested, from 0 to 1: about one wrong letter in four."""

MIN_PREFIX_LETTERS: Final = 3
"""Letters that are enough to suggest the names that begin with them."""

MAX_COMPARED_CHARACTERS: Final = 100

MAX_COMPARED_NAMES: Final = 1000
"""Names that are compared, the first ones: to compare 10,000 takes half a second."""


def find_near_names(name: str, known: Iterable[str], limit: int = 2) -> list[str]:
    """Return the known names that are nearest to a mistyped one, in any case; often none.

    A name is near if it is `name` with two letters exchanged, or begins with it, or has almost the
    same letters.
    """
    wanted = name.lower()[:MAX_COMPARED_CHARACTERS]
    by_lower = {option.lower(): option for option in islice(known, MAX_COMPARED_NAMES) if option}
    exchanged = [option for option in by_lower if _is_exchange(wanted, option)]
    longer = (
        sorted(option for option in by_lower if option.startswith(wanted))
        if len(wanted) >= MIN_PREFIX_LETTERS
        else []
    )
    alike = get_close_matches(wanted, by_lower, n=limit, cutoff=MIN_SIMILARITY)
    found = dict.fromkeys((*exchanged, *alike, *longer))
    return [by_lower[option] for option in found if option != wanted][:limit]


def suggest_names(near: Sequence[str]) -> str:
    """Return "Did you mean look or leave?"; "" without names."""
    return f"Did you mean {' or '.join(near)}?" if near else ""


def _is_exchange(name: str, other: str) -> bool:
    """Return whether two names differ in two neighbouring letters that are exchanged."""
    if len(name) != len(other):
        return False
    wrong = [at for at in range(len(name)) if name[at] != other[at]]
    if len(wrong) != 2 or wrong[1] != wrong[0] + 1:
        return False
    first, second = wrong
    return name[first] == other[second] and name[second] == other[first]
