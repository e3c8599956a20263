"""BM25 over words of namespaces; words of a query also stand for similar ones.

A namespace is one document of weighted fields. A word of a query counts once: as the best of itself
and of the words of the index that are most similar to it (`word_vectors`), or, if it is in no
dictionary, of those that are spelled alike. Words that are common in English count less, and
namespaces that have something for many words of the query count more.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

from cachetools import LRUCache

from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.stemming import STOP_WORDS, extract_words, split_camel_case, stem
from sshwarma.tools.word_vectors import (
    compare_signatures,
    find_signature,
    measure_english_rarity,
)

NAME_WEIGHT: Final = 1.5
KEYWORD_WEIGHT: Final = 1.0
DESCRIPTION_WEIGHT: Final = 1.5
TOOL_NAME_WEIGHT: Final = 1.0
TOOL_TEXT_WEIGHT: Final = 1.0

SATURATION: Final = 1.2
"""k1 of BM25: how little more a word says if it occurs again."""

LENGTH_NORMALIZATION: Final = 0.5
"""b of BM25: how much less a word says in a longer namespace."""

MIN_WORD_SIMILARITY: Final = 0.08
"""Similarity of words, from 0 to 1, up to which they count as different."""

SIMILARITY_EXPONENT: Final = 0.85
"""Below 1, words that are somewhat similar count more."""

SIMILAR_WORD_WEIGHT: Final = 0.9
"""Weight of a similar word, relative to the query's own; it never counts more than that."""

MAX_SIMILAR_WORDS: Final = 40
"""Words of the index that a word of a query may stand for."""

COMMON_WORD_WEIGHT: Final = 0.4
"""Weight of the most common English words in a query; that of rare and unknown words is 1."""

COVERAGE_WEIGHT: Final = 4.0
"""How much more a namespace scores that has something for every word of the query."""

MIN_COMMON_TRIGRAMS: Final = 0.6
"""Share of common trigrams from which words count as spelled alike."""

MAX_QUERY_WORDS: Final = 64
"""Different words of a query that are compared; the rest is ignored."""

MAX_CACHED_EXPANSIONS: Final = 2_048

Postings = list[tuple[int, float]]
"""Numbers of the namespaces that have a word, with how much they are about it, 0 to k1 + 1."""


class WordIndex:
    """Index of words of namespaces, computed once, safe to share between threads."""

    def __init__(self, spaces: Sequence[IndexedNamespace]) -> None:
        self._count = len(spaces)
        documents = [_count_words(space) for space in spaces]
        self._postings = _make_postings([weights for weights, _ in documents])
        self._rarities = {
            root: _measure_rarity(len(entries), len(spaces))
            for root, entries in self._postings.items()
        }
        self._forms = _choose_forms([forms for _, forms in documents])
        self._expansions: LRUCache[str, tuple[tuple[str, float], ...]] = LRUCache(
            MAX_CACHED_EXPANSIONS
        )

    def score(self, words: Sequence[str], *, by_similarity: bool) -> list[float]:
        """Return the BM25 of each namespace for the words of a query.

        The unit is that of a word which one namespace alone has once.

        Args:
            words: the words as `extract_words` returns them.
            by_similarity: whether words also stand for similar ones.
        """
        scores, covered, total = [0.0] * self._count, [0.0] * self._count, 0.0
        chosen: dict[str, str] = {}
        for word in words:
            if word not in STOP_WORDS:
                chosen.setdefault(stem(word), word)
        for root, word in list(chosen.items())[:MAX_QUERY_WORDS]:
            weight = measure_english_rarity(word)
            weight = COMMON_WORD_WEIGHT + (1.0 - COMMON_WORD_WEIGHT) * weight
            total += weight
            for number, value in self._find_best(root, word, by_similarity).items():
                scores[number] += weight * value
                covered[number] += weight * min(value, 1.0)
        return [
            score and score * (1.0 + COVERAGE_WEIGHT * share / total)
            for score, share in zip(scores, covered, strict=True)
        ]

    @cached_property
    def _signatures(self) -> list[tuple[str, int]]:
        """The roots that have a signature.

        Not computed with the index: until somebody searches, the table need not be in memory.
        """
        return [
            (root, signature)
            for root, form in self._forms.items()
            if (signature := find_signature(form)) is not None
        ]

    def _find_best(self, root: str, word: str, by_similarity: bool) -> dict[int, float]:
        """Return the value of a word for each namespace that has it or a similar one."""
        rarity = self._rarities.get(root, 1.0)
        best = {number: rarity * value for number, value in self._postings.get(root, ())}
        for similar, share in self._expand(word) if by_similarity else ():
            share *= SIMILAR_WORD_WEIGHT * min(self._rarities[similar], rarity)
            for number, value in self._postings[similar]:
                best[number] = max(best.get(number, 0.0), share * value)
        return best

    def _expand(self, word: str) -> tuple[tuple[str, float], ...]:
        """Return the roots that a word may stand for, with their weights from 0 to 1."""
        if (expansion := self._expansions.get(word)) is None:
            signature = find_signature(word)
            expansion = (
                self._find_spelled_alike(word)
                if signature is None
                else self._find_similar(signature)
            )
            self._expansions[word] = expansion
        return expansion

    def _find_similar(self, signature: int) -> tuple[tuple[str, float], ...]:
        compared = (
            (compare_signatures(signature, other), root) for root, other in self._signatures
        )
        nearest = heapq.nlargest(MAX_SIMILAR_WORDS, compared)
        scale = 1.0 - MIN_WORD_SIMILARITY
        return tuple(
            (root, ((similarity - MIN_WORD_SIMILARITY) / scale) ** SIMILARITY_EXPONENT)
            for similarity, root in nearest
            if similarity > MIN_WORD_SIMILARITY
        )

    def _find_spelled_alike(self, word: str) -> tuple[tuple[str, float], ...]:
        """Find words that a misspelled one may mean, by Dice's coefficient of trigrams."""
        if stem(word) in self._postings:
            return ()
        own, alike = _trigrams(word), []
        for root, form in self._forms.items():
            other = _trigrams(form)
            share = 2.0 * len(own & other) / (len(own) + len(other))
            if share >= MIN_COMMON_TRIGRAMS:
                alike.append((share, root))
        return tuple((root, share) for share, root in heapq.nlargest(MAX_SIMILAR_WORDS, alike))


def _make_postings(documents: Sequence[Mapping[str, float]]) -> dict[str, Postings]:
    lengths = [sum(weights.values()) for weights in documents]
    average = sum(lengths) / len(lengths) if any(lengths) else 1.0
    postings: dict[str, Postings] = {}
    for number, (weights, length) in enumerate(zip(documents, lengths, strict=True)):
        norm = SATURATION * (1.0 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * length / average)
        for root, weight in weights.items():
            value = weight * (SATURATION + 1.0) / (weight + norm)
            postings.setdefault(root, []).append((number, value))
    return postings


def _measure_rarity(having: int, count: int) -> float:
    """Return a word's inverse document frequency, above 0; 1 if one alone has it."""
    return _inverse_frequency(having, count) / _inverse_frequency(1, count)


def _inverse_frequency(having: int, count: int) -> float:
    return math.log1p((count - having + 0.5) / (having + 0.5))


def _choose_forms(documents: Sequence[Mapping[str, Counter[str]]]) -> dict[str, str]:
    """Return the most frequent form of each root, the first by spelling of equals."""
    counts: dict[str, Counter[str]] = {}
    for forms in documents:
        for root, count in forms.items():
            counts.setdefault(root, Counter()).update(count)
    return {
        root: min(counts[root], key=lambda form: (-counts[root][form], form))
        for root in sorted(counts)
    }


@lru_cache(maxsize=4_096)
def _count_words(space: IndexedNamespace) -> tuple[dict[str, float], dict[str, Counter[str]]]:
    """Return the weight of each root in a namespace, and how often its forms occur."""
    weights: dict[str, float] = {}
    forms: dict[str, Counter[str]] = {}
    for text, weight in _weighted_fields(space):
        for word in extract_words(text):
            if word not in STOP_WORDS:
                root = stem(word)
                weights[root] = weights.get(root, 0.0) + weight
                forms.setdefault(root, Counter())[word] += 1
    return weights, forms


def _weighted_fields(space: IndexedNamespace) -> Iterator[tuple[str, float]]:
    yield f"{space.id} {space.name}", NAME_WEIGHT
    yield " ".join(space.keywords), KEYWORD_WEIGHT
    yield space.description, DESCRIPTION_WEIGHT
    for line in space.tools:
        name, _, text = line.partition(": ")
        yield split_camel_case(name), TOOL_NAME_WEIGHT
        yield text, TOOL_TEXT_WEIGHT


@lru_cache(maxsize=8_192)
def _trigrams(word: str) -> frozenset[str]:
    text = f"<{word}>"
    return frozenset(text[start : start + 3] for start in range(max(len(text) - 2, 1)))
