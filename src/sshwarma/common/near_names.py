"""Near names: what a person who mistyped a name may have meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice
from typing import Final

from sshwarma.common.shared_start import count_shared

MIN_NAME_SIMILARITY: Final = 0.75
"""Similarity of a name that is suggested, from 0 to 1: about one wrong letter in four."""

MIN_PREFIX_LETTERS: Final = 3
"""Letters that are enough to suggest the names that begin with them."""

MAX_COMPARED_CHARACTERS: Final = 100

MAX_COMPARED_NAMES: Final = 1000
"""Names that are compared, the first ones: everybody waits meanwhile."""

MAX_MEASURED_NAMES: Final = 20
"""Names whose similarity is measured, those with the most letters in common: each takes 0.2 ms."""

MAX_MEASURED_CHARACTERS: Final = 40
"""Characters of two names that are compared to measure their similarity, between the beginning and
the end that they share: the time grows with their square."""

_MAX_COUNTED_LETTERS: Final = 12
"""Different letters that are counted in each name, to choose those that are measured."""


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
    exchanged = _list_exchanges(lower_name)
    exchanges = [option for option in by_lower if option in exchanged]
    longer = (
        sorted(option for option in by_lower if option.startswith(lower_name))
        if len(lower_name) >= MIN_PREFIX_LETTERS
        else []
    )
    similar = _find_similar(lower_name, by_lower, limit)
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


def _list_exchanges(name: str) -> set[str]:
    """Return a name with each two neighbouring letters exchanged."""
    return {
        f"{name[:at]}{name[at + 1]}{name[at]}{name[at + 2 :]}"
        for at in range(len(name) - 1)
        if name[at] != name[at + 1]
    }


def _find_similar(name: str, options: Iterable[str], limit: int) -> list[str]:
    """Return options with almost the letters of a name, the most similar first."""
    letters = Counter(name).most_common(_MAX_COUNTED_LETTERS)
    uncounted = len(name) - sum(times for _, times in letters)
    end, start = name.rpartition("/")[2], name[: len(name) // 2]
    likely: list[tuple[float, bool, bool, str]] = []
    for option in options:
        total = len(name) + len(option)
        if 2 * min(len(name), len(option)) < MIN_NAME_SIMILARITY * total:
            continue
        common = sum([min(times, option.count(letter)) for letter, times in letters])
        bound = 2 * (common + uncounted) / total
        if bound >= MIN_NAME_SIMILARITY:
            likely.append((bound, option.endswith(end), option.startswith(start), option))
    measured = [
        (_measure_similarity(name, option), option)
        for *_, option in nlargest(MAX_MEASURED_NAMES, likely)
    ]
    near = [(score, option) for score, option in measured if score >= MIN_NAME_SIMILARITY]
    return [option for _, option in nlargest(limit, near)]


def _measure_similarity(one: str, other: str) -> float:
    """Return how similar two names are, from 0 to 1: their share of common letters.

    The beginning and the end that both share are counted, and the rest is compared.
    """
    total = len(one) + len(other)
    start = count_shared(one, other)
    one, other = one[start:], other[start:]
    end = count_shared(reversed(one), reversed(other))
    one, other = one[: len(one) - end], other[: len(other) - end]
    matcher = SequenceMatcher(
        None, one[:MAX_MEASURED_CHARACTERS], other[:MAX_MEASURED_CHARACTERS], autojunk=False
    )
    same = sum(block.size for block in matcher.get_matching_blocks())
    return 2 * (start + same + end) / total
