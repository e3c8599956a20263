"""Keywords, names and ids of namespaces that occur in a query, as whole words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.stemming import STOP_WORDS, extract_words, inflections

MIN_QUERY_PREFIX_CHARACTERS: Final = 3
"""Minimum letters of a name prefix, in a query without other words."""

_NAME_SEPARATORS: Final = re.compile(r"\s+(?:and|or|&)\s+|\s*[,/;&+]\s*", re.IGNORECASE)

_Span = tuple[int, int]
"""Start and end of a phrase among the words of a query."""


@dataclass(frozen=True, slots=True)
class KeywordHit:
    """Keywords, name or id of a namespace that occur in a query.

    Attributes:
        reason: The longest phrase, such as `keyword create`, `name` or `id`.
        is_exact: Whether the query is the whole name or id.
    """

    reason: str
    is_exact: bool = False


def match_keywords(
    words: Sequence[str], spaces: Sequence[IndexedNamespace]
) -> dict[int, KeywordHit]:
    """Return hits by namespace number; of phrases as long, the rarest is the reason."""
    found: dict[int, dict[_Span, str]] = {}
    for number, space in enumerate(spaces):
        if labels := _find_phrases(words, _index_phrases(space)):
            found[number] = labels
    if not found:
        return _match_prefix(words, spaces)
    sharing: dict[_Span, int] = {}
    for labels in found.values():
        for span in labels:
            sharing[span] = sharing.get(span, 0) + 1
    hits = {}
    for number, labels in found.items():
        best = max(labels, key=lambda span: (span[1] - span[0], -sharing[span], -span[0]))
        exact = _index_phrases(spaces[number]).exact.get(tuple(words), "")
        hits[number] = KeywordHit(exact or labels[best], bool(exact))
    return hits


def _match_prefix(
    words: Sequence[str], spaces: Sequence[IndexedNamespace]
) -> dict[int, KeywordHit]:
    """For a single word: namespaces with a word in name or id that starts with it."""
    if len(words) != 1 or len(words[0]) < MIN_QUERY_PREFIX_CHARACTERS:
        return {}
    return {
        number: KeywordHit("name")
        for number, space in enumerate(spaces)
        if any(word.startswith(words[0]) for word in _index_phrases(space).name_words)
    }


@dataclass(frozen=True, slots=True)
class _Phrases:
    """Phrases of a namespace by each form of their first word.

    Each phrase has the forms of its words and its label.
    """

    by_first_word: dict[str, list[tuple[tuple[frozenset[str], ...], str]]]
    exact: dict[tuple[str, ...], str]  # the words of its name and of its id, with their origin
    name_words: tuple[str, ...]  # the words of both


@lru_cache(maxsize=4_096)
def _index_phrases(space: IndexedNamespace) -> _Phrases:
    labels: dict[tuple[str, ...], str] = {}
    for text, label in _list_phrases(space):
        phrase = tuple(extract_words(text))
        if phrase and (label not in ("id", "name") or not STOP_WORDS.issuperset(phrase)):
            labels.setdefault(phrase, label)
    phrases: dict[str, list[tuple[tuple[frozenset[str], ...], str]]] = {}
    for phrase, label in labels.items():
        forms = tuple(inflections(word) for word in phrase)
        for form in forms[0]:
            phrases.setdefault(form, []).append((forms, label))
    name, own_id = tuple(extract_words(space.name)), tuple(extract_words(space.id))
    return _Phrases(phrases, {name: "name", own_id: "id"}, (*own_id, *name))


def _list_phrases(space: IndexedNamespace) -> Iterator[tuple[str, str]]:
    """Return the phrases of a namespace, and their labels."""
    for keyword in space.keywords:
        yield keyword, f"keyword {keyword}"
    yield space.id, "id"
    yield space.name, "name"
    yield space.id.rpartition(".")[2], "id"
    for part in _NAME_SEPARATORS.split(space.name):
        yield part, "name"


def _find_phrases(words: Sequence[str], phrases: _Phrases) -> dict[_Span, str]:
    """Return the labels of phrases that occur in a query, by their place."""
    labels: dict[_Span, str] = {}
    for start, word in enumerate(words):
        for forms, label in phrases.by_first_word.get(word, ()):
            end = start + len(forms)
            if end <= len(words) and all(map(frozenset.__contains__, forms, words[start:end])):
                labels.setdefault((start, end), label)
    return labels
