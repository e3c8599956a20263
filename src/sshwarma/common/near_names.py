"""Near names: what a person who mistyped a name may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

MIN_NAME_SIMILARITY: Final = 0.75
"""Similarity of a name that is suggested, from 0 to 1: about one wrong letter in four."""

MIN_PREFIX_LETTERS: Final = 3
"""Letters that are enough to suggest the names that begin with them."""

MAX_COMPARED_CHARACTERS: Final = 100

MAX_COMPARED_NAMES: Final = 1000
"""Names that are compared, the first ones: to compare 10,000 takes half a second."""


def find_near_names(name: str, known: Iterable[str], limit: int = 2) -> list[str]:
    """Return the known names nearest to a mistyped one, ignoring case; may be empty.

    A name is near if it is `name` with two letters exchanged, or begins with it, or has almost the
    same letters. If `name` has no namespace, names are compared without theirs too: `dcie` is near
    `workshop:dice`.
    """
    lower_name = name.lower()[:MAX_COMPARED_CHARACTERS]
    options = [option for option in islice(known, MAX_COMPARED_NAMES) if option]
    by_lower = {option.lower(): option for option in options}
    if ":" not in name:
        for option in options:
            by_lower.setdefault(option.lower().rpartition(":")[2], option)
    exchanges = [option for option in by_lower if _is_exchange(lower_name, option)]
    longer = (
        sorted(option for option in by_lower if option.startswith(lower_name))
        if len(lower_name) >= MIN_PREFIX_LETTERS
        else []
    )
    similar = get_close_matches(lower_name, by_lower, n=limit, cutoff=MIN_NAME_SIMILARITY)
    matches = dict.fromkeys((*exchanges, *similar, *longer))
    near = dict.fromkeys(by_lower[option] for option in matches)
    return [option for option in near if option.lower() != lower_name][:limit]


def suggest_names(near: Sequence[str]) -> str:
    """Return "Did you mean look or leave?"; "" without names."""
    return f"Did you mean {' or '.join(near)}?" if near else ""


def suggest_near_names(name: str, known: Iterable[str]) -> str:
    """Return a question such as "Did you mean look?" for a mistyped name, or "".

    It lists the known names that are near.
    """
    return suggest_names(find_near_names(name, known))


def _is_exchange(name: str, other: str) -> bool:
    """Return whether two names differ in two neighbouring letters that are exchanged."""
    if len(name) != len(other):
        return False
    positions = [index for index in range(len(name)) if name[index] != other[index]]
    if len(positions) != 2 or positions[1] != positions[0] + 1:
        return False
    first, second = positions
    return name[first] == other[second] and name[second] == other[first]
