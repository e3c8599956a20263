"""Suggestions for a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

MIN_SIMILARITY: Final = 0.7
"""Similarity of a suggested name, from 0 to 1; a name of the same letters is always similar."""

MAX_LAG: Final = 0.05
"""A name is left out if it is less similar than the best by more than this."""

MAX_SUGGESTIONS: Final = 2


def find_close_names(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that are most similar to a mistyped word, the best first."""
    wanted = word.lower()
    scored = sorted(
        ((difflib.SequenceMatcher(None, name, wanted).ratio(), name) for name in set(names)),
        key=lambda score: (-score[0], score[1]),
    )
    best = scored[0][0] if scored else 0.0
    near = [
        name
        for score, name in scored
        if score >= best - MAX_LAG
        and (score >= MIN_SIMILARITY or (wanted and sorted(name) == sorted(wanted)))
    ]
    return near[:MAX_SUGGESTIONS]
