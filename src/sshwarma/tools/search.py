"""Search for namespaces by a description of a task.

Words come first: a keyword, a name or an id in the query says more than similarity, and costs
nothing. Only if no word matches are query and namespaces compared as vectors. All computation runs
in a thread.
"""

from __future__ import annotations

import asyncio
import math
import re
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter, mul
from typing import Final, TypeVar

import structlog
from cachetools import LRUCache

from sshwarma.common.limits import MAX_TOOL_QUERY_CHARACTERS
from sshwarma.tools.embedding import MAX_TEXT_CHARACTERS, Embedder, HashedNgrams
from sshwarma.tools.stemming import STOP_WORDS, extract_words, inflections, stem

log = structlog.get_logger(__name__)

T = TypeVar("T")

_VectorKey = tuple[str, bytes]
"""The name of an embedder and the digest of a text."""

MAX_CACHED_VECTORS: Final = 10_000
"""Most cached vectors, 4 KiB each; the least recently used are evicted."""

MAX_BATCH_TEXTS: Final = 64
"""Texts embedded in one batch."""

MAX_CANDIDATES: Final = 30
"""Most namespaces compared tool by tool."""

MAX_TOOL_LINES: Final = 100
"""Most tools of a namespace compared one by one."""

NAMESPACE_WEIGHT: Final = 0.75
"""Weight of the whole namespace relative to its best tool."""

OTHER_WORDS_WEIGHT: Final = 0.5
"""Bonus if all other words of the query occur in a namespace's texts.

The unit is 1 for a keyword that it alone has.
"""

HALF_SCORE_HITS: Final = 0.25
"""Hits for a score of one half, where 1 is a keyword that a namespace alone has."""

NESTED_HIT_WEIGHT: Final = 0.5
"""Weight of a hit within a longer one, as `test` in `A/B test`."""

MIN_QUERY_PREFIX_CHARACTERS: Final = 3
"""Least letters of a name prefix, in a query without other words."""

_NAME_SEPARATORS: Final = re.compile(r"\s+(?:and|or|&)\s+|\s*[,/;&+]\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class IndexedNamespace:
    """A namespace as the search sees it. `tools` are lines such as `push: Send commits`."""

    id: str
    name: str
    description: str
    keywords: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A matching namespace, its score from 0 to 1, and the reason.

    The reason is like `keyword create`, `name`, `similar 0.43`.
    """

    id: str
    score: float
    reason: str


class NamespaceSearch:
    """Searches namespaces, with a cache of vectors keyed by text.

    Only a namespace whose text changes is embedded again.
    """

    def __init__(self, embedder: Embedder, threshold: float | None = None) -> None:
        """Set the least cosine of a match, 0 to 1; the embedder's own if not given."""
        self._embedder = embedder
        self._threshold = threshold
        self._vectors: LRUCache[_VectorKey, array[float]] = LRUCache(MAX_CACHED_VECTORS)
        self._vectors_lock = asyncio.Lock()
        self.embedded_queries = 0
        """Number of queries that were embedded."""

    @property
    def embedder(self) -> Embedder:
        """The current embedder: hashed n-grams once the configured one has failed."""
        return self._embedder

    @property
    def threshold(self) -> float:
        """The least cosine that counts as a match."""
        return self._embedder.threshold if self._threshold is None else self._threshold

    async def prepare(self, spaces: Sequence[IndexedNamespace]) -> None:
        """Compute missing vectors, so that no search has to wait for them."""
        texts = [_namespace_text(space) for space in spaces]
        texts += [line for space in spaces for line in _tool_lines(space)]

        async def work(embedder: Embedder) -> None:
            await self._vectors_of(embedder, texts[:MAX_CACHED_VECTORS])

        await self._with_fallback(work)

    async def find(
        self, query: str, spaces: Sequence[IndexedNamespace], limit: int = 10
    ) -> list[SearchMatch]:
        """Return the matching namespaces, best first, at most `limit`; deterministic order.

        None for a query without words.
        """
        words = extract_words(query[:MAX_TOOL_QUERY_CHARACTERS])
        if not words or not spaces or limit < 1:
            return []
        matches = await asyncio.to_thread(match_words, words, spaces)
        if matches:
            return matches[:limit]

        async def work(embedder: Embedder) -> list[SearchMatch]:
            return await self._match_vectors(
                embedder, query[:MAX_TOOL_QUERY_CHARACTERS], spaces, limit
            )

        return await self._with_fallback(work)

    async def _match_vectors(
        self, embedder: Embedder, query: str, spaces: Sequence[IndexedNamespace], limit: int
    ) -> list[SearchMatch]:
        """Return the namespaces most similar to the whole query; a similar tool counts too."""
        descriptions = [_namespace_text(space) for space in spaces]
        vectors = await self._vectors_of(embedder, descriptions)
        self.embedded_queries += 1
        [query_vector] = await asyncio.to_thread(embedder.embed, [query])
        similarities = await asyncio.to_thread(
            cosine_similarities,
            query_vector,
            [vectors[description] for description in descriptions],
        )
        ranked = sorted(
            range(len(spaces)), key=lambda number: (-similarities[number], spaces[number].id)
        )
        candidates = ranked[: max(MAX_CANDIDATES, limit)]
        lines = {number: _tool_lines(spaces[number]) for number in candidates}
        vectors = await self._vectors_of(
            embedder, [text for tool_lines in lines.values() for text in tool_lines]
        )

        def judge() -> list[SearchMatch]:
            matches = []
            for number, tool_lines in lines.items():
                best = max(
                    cosine_similarities(query_vector, [vectors[text] for text in tool_lines]),
                    default=similarities[number],
                )
                score = min(
                    max(
                        NAMESPACE_WEIGHT * similarities[number] + (1.0 - NAMESPACE_WEIGHT) * best,
                        0.0,
                    ),
                    1.0,
                )
                if score >= self.threshold:
                    matches.append(SearchMatch(spaces[number].id, score, f"similar {score:.2f}"))
            return sorted(matches, key=_match_order)[:limit]

        return await asyncio.to_thread(judge)

    async def _vectors_of(
        self, embedder: Embedder, texts: Sequence[str]
    ) -> dict[str, array[float]]:
        """Cached or new vectors of texts. Waits for vectors that another call is computing."""
        keys = await asyncio.to_thread(
            lambda: {text: _vector_key(embedder.name, text) for text in texts},
        )
        vectors = self._cached_vectors(keys)
        if len(vectors) < len(keys):
            async with self._vectors_lock:
                vectors = self._cached_vectors(
                    keys
                )  # another call may have computed them in the meantime
                new_texts = [text for text in keys if text not in vectors]
                for start in range(0, len(new_texts), MAX_BATCH_TEXTS):
                    batch = new_texts[start : start + MAX_BATCH_TEXTS]
                    new_vectors = await asyncio.to_thread(embedder.embed, batch)
                    for text, vector in zip(batch, new_vectors, strict=True):
                        vectors[text] = self._vectors[keys[text]] = array("f", vector)
        return vectors

    def _cached_vectors(self, keys: dict[str, _VectorKey]) -> dict[str, array[float]]:
        vectors = {}
        for text, key in keys.items():
            if (vector := self._vectors.get(key)) is not None:
                vectors[text] = vector
        return vectors

    async def _with_fallback(self, work: Callable[[Embedder], Awaitable[T]]) -> T:
        """Run with the embedder; if it fails, use the fallback from then on.

        A search must not fail because a library does.
        """
        embedder = self._embedder
        if not isinstance(embedder, HashedNgrams):
            try:
                return await work(embedder)
            except Exception:
                log.exception("an embedder failed; hashed n-grams from now on", name=embedder.name)
                self._embedder = HashedNgrams()
        return await work(self._embedder)


def cosine_similarities(query: Sequence[float], vectors: Iterable[Sequence[float]]) -> list[float]:
    """Return the cosine of a vector with each of several, all of length 1."""
    places = [place for place, value in enumerate(query) if value]
    if not 1 < len(places) < len(query) // 2:
        return [sum(map(mul, query, vector)) for vector in vectors]
    pick, values = itemgetter(*places), [query[place] for place in places]
    return [sum(map(mul, values, pick(vector))) for vector in vectors]


def match_words(words: Sequence[str], spaces: Sequence[IndexedNamespace]) -> list[SearchMatch]:
    """Namespaces whose keywords, name or id occur in the query, by number and rarity."""
    hits: dict[int, dict[tuple[int, int], str]] = {}
    for number, space in enumerate(spaces):
        if space_hits := _find_phrases(words, _namespace_terms(space)):
            hits[number] = space_hits
    if not hits:
        return _match_prefix(words, spaces)
    sharing: dict[tuple[int, int], int] = {}
    for space_hits in hits.values():
        for span in space_hits:
            sharing[span] = sharing.get(span, 0) + 1
    matches = []
    roots = {stem(word) for word in words if word not in STOP_WORDS}
    for number, space_hits in hits.items():
        space, terms = spaces[number], _namespace_terms(spaces[number])
        weight = 0.0
        for span in space_hits:
            rarity = math.log1p(len(spaces) / sharing[span]) / math.log1p(len(spaces))
            weight += rarity * (NESTED_HIT_WEIGHT if _is_nested(span, sharing) else 1.0)
        best = max(space_hits, key=lambda span: (span[1] - span[0], -sharing[span], -span[0]))
        weight += OTHER_WORDS_WEIGHT * len(roots & terms.roots) / max(len(roots), 1)
        if exactly := terms.exact.get(tuple(words)):
            matches.append(SearchMatch(space.id, 1.0, exactly))
        else:
            matches.append(
                SearchMatch(space.id, weight / (weight + HALF_SCORE_HITS), space_hits[best])
            )
    return sorted(matches, key=_match_order)


def _match_prefix(words: Sequence[str], spaces: Sequence[IndexedNamespace]) -> list[SearchMatch]:
    """For a single word: namespaces with a word in name or id that starts with it."""
    if len(words) != 1 or len(words[0]) < MIN_QUERY_PREFIX_CHARACTERS:
        return []
    return sorted(
        (
            SearchMatch(space.id, 0.5, "name")
            for space in spaces
            if any(word.startswith(words[0]) for word in _namespace_terms(space).name_words)
        ),
        key=_match_order,
    )


@dataclass(frozen=True, slots=True)
class _NamespaceTerms:
    """The terms of a namespace: phrases by each form of their first word.

    Each phrase has the forms of its words and its label.
    """

    phrases: dict[str, list[tuple[tuple[frozenset[str], ...], str]]]
    exact: dict[tuple[str, ...], str]  # the words of its name and of its id, with their origin
    name_words: tuple[str, ...]  # the words of both
    roots: frozenset[str]  # the stems of all its texts


@lru_cache(maxsize=4_096)
def _namespace_terms(space: IndexedNamespace) -> _NamespaceTerms:
    labels: dict[tuple[str, ...], str] = {}
    for text, label in _namespace_phrases(space):
        phrase = tuple(extract_words(text))
        if phrase and (label not in ("id", "name") or not STOP_WORDS.issuperset(phrase)):
            labels.setdefault(phrase, label)
    phrases: dict[str, list[tuple[tuple[frozenset[str], ...], str]]] = {}
    for phrase, label in labels.items():
        forms = tuple(inflections(word) for word in phrase)
        for form in forms[0]:
            phrases.setdefault(form, []).append((forms, label))
    roots = frozenset(
        stem(word) for word in extract_words(_namespace_text(space)) if word not in STOP_WORDS
    )
    name, own_id = tuple(extract_words(space.name)), tuple(extract_words(space.id))
    return _NamespaceTerms(phrases, {name: "name", own_id: "id"}, (*own_id, *name), roots)


def _namespace_phrases(space: IndexedNamespace) -> Iterator[tuple[str, str]]:
    """Return the phrases of a namespace, and their labels."""
    for keyword in space.keywords:
        yield keyword, f"keyword {keyword}"
    yield space.id, "id"
    yield space.name, "name"
    yield space.id.rpartition(".")[2], "id"
    for part in _NAME_SEPARATORS.split(space.name):
        yield part, "name"


def _find_phrases(words: Sequence[str], terms: _NamespaceTerms) -> dict[tuple[int, int], str]:
    """Return the (start, end) word positions of phrases in a query."""
    labels: dict[tuple[int, int], str] = {}
    for start, word in enumerate(words):
        for forms, label in terms.phrases.get(word, ()):
            end = start + len(forms)
            if end <= len(words) and all(map(frozenset.__contains__, forms, words[start:end])):
                labels.setdefault((start, end), label)
    return labels


def _is_nested(span: tuple[int, int], spans: Iterable[tuple[int, int]]) -> bool:
    start, end = span
    return any(other != span and other[0] <= start and end <= other[1] for other in spans)


def _match_order(match: SearchMatch) -> tuple[float, int, str]:
    return -match.score, match.id.count("."), match.id


def _namespace_text(space: IndexedNamespace) -> str:
    """Return all texts of a namespace, as one."""
    texts = (f"{space.name}. {space.description}", ", ".join(space.keywords), *space.tools)
    return "\n".join(texts)[:MAX_TEXT_CHARACTERS]


def _tool_lines(space: IndexedNamespace) -> list[str]:
    return [line[:MAX_TEXT_CHARACTERS] for line in space.tools[:MAX_TOOL_LINES]]


def _vector_key(embedder: str, text: str) -> _VectorKey:
    """Return a digest, because a text may be long."""
    return embedder, blake2b(text.encode(errors="replace"), digest_size=16).digest()
