"""Which items of a list have the words of a filter, as static/narrow.js says."""

from __future__ import annotations

from collections.abc import Sequence


def find_items(texts: Sequence[tuple[str, str]], wanted: str) -> list[bool]:
    """Return which items are found, each given as its name and a text about it.

    Items whose names have all the words; without any, those that have them anywhere.
    """
    words = wanted.lower().split()
    named = [_has(name, words) for name, _ in texts]
    return named if any(named) else [_has(f"{name} {about}", words) for name, about in texts]


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word in text.lower() for word in words)
