"""Search for namespaces by a description of a task.

Namespaces are ranked by BM25 over the words of a query and similar words (`word_index`). The query
as a whole is also compared with the texts of namespaces, by word averages and, if one is installed,
by a sentence model, whole and piece by piece (`piece_similarity`); all scores are added. A query
that is the name of a namespace is not compared. All computation runs in a thread.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Final

import structlog
from cachetools import LRUCache

from sshwarma.common.limits import DEFAULT_FIND_THRESHOLD, MAX_TOOL_QUERY_CHARACTERS
from sshwarma.settings import ReloadableSettings
from sshwarma.tools.embedding import (
    MAX_TEXT_CHARACTERS,
    PieceVectorizer,
    Vectorizer,
    hash_text,
)
from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.keywords import KeywordHit, match_keywords
from sshwarma.tools.piece_similarity import PieceFrequencies, PieceSimilarity
from sshwarma.tools.stemming import extract_words
from sshwarma.tools.word_averages import WordAverages
from sshwarma.tools.word_index import WordIndex
from sshwarma.world.builtin_containers import DEFAULT_NAMESPACES

log = structlog.get_logger(__name__)

_VectorKey = tuple[str, bytes]
"""The name of an embedder and the digest of a text."""

MAX_CACHED_VECTORS: Final = 20_000
"""Maximum number of cached vectors, up to 1.5 KiB each; the least recently used are evicted."""

MAX_CACHED_INDEXES: Final = 8
"""Maximum number of cached indexes of words: one for each room that has tools of its own."""

MAX_BATCH_TEXTS: Final = 4
"""Texts embedded in one go. Other searches can embed between two, and a server that ends waits for
this many: a long text takes 0.1 s of CPU."""

MAX_CANDIDATES: Final = 40
"""Maximum number of namespaces compared tool by tool, and piece by piece."""

CANDIDATE_WORD_WEIGHT: Final = 0.04
"""Cosine with name and description that a score by words of 1 is worth, among candidates."""

MAX_TOOL_LINES: Final = 100
"""Maximum number of tools of a namespace compared one by one."""

NAMESPACE_SHARE: Final = 0.3
"""Share of the cosine with a namespace's name and description; the rest is that of its tools."""

AVERAGES_NAMESPACE_SHARE: Final = 0.2
"""The same for cosines of word averages."""

BEST_TOOLS: Final = 2
"""Number of tools whose similarities count, on average."""

WORD_WEIGHT: Final = 0.02
"""Cosine that a score by words of 1 is worth, with a sentence model."""

WORD_WEIGHT_ALONE: Final = 0.1
"""Cosine of word averages that a score by words of 1 is worth, without a sentence model."""

AVERAGES_WEIGHT: Final = 0.07
"""Weight of the cosine of word averages, beside that of a sentence model."""

PIECES_WEIGHT: Final = 1.0
"""Weight of the similarity piece by piece, beside the cosine of a sentence model."""

HALF_WORD_SCORE: Final = 8.0
"""Score by words that is a score of one half, for the name of a namespace."""

HALF_COSINE: Final = 0.5
"""Sum of similarities and words that is a score of one half."""

BUILTIN_WEIGHT: Final = 0.6
"""Weight of the namespaces that rooms have by default: their tools are on already, and have some
word for most queries. They come first only where nothing else is nearly as good."""


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A matching namespace, its score from 0 to 1, and the reason.

    The reason is like `keyword create`, `name`, `similar 0.43`.
    """

    id: str
    score: float
    reason: str


class NamespaceSearch:
    """Searches namespaces, with caches of indexes and of vectors keyed by text.

    Only a namespace whose text changes is embedded again.
    """

    def __init__(
        self, embedder: Vectorizer | None = None, settings: ReloadableSettings | None = None
    ) -> None:
        """Set the sentence model, if any, and the settings of the search."""
        self._embedder: Vectorizer | None = (
            PieceSimilarity(embedder) if isinstance(embedder, PieceVectorizer) else embedder
        )
        self._averages = WordAverages()
        self._settings = settings or ReloadableSettings()
        self._vectors: LRUCache[_VectorKey, array[float]] = LRUCache(MAX_CACHED_VECTORS)
        self._vectors_lock = asyncio.Lock()
        self._indexes: LRUCache[tuple[IndexedNamespace, ...], WordIndex] = LRUCache(
            MAX_CACHED_INDEXES
        )
        self._frequencies: LRUCache[tuple[IndexedNamespace, ...], PieceFrequencies] = LRUCache(
            MAX_CACHED_INDEXES
        )
        self.embedded_queries = 0
        """Queries compared by similarity (all but exact names)."""

    @property
    def embedder(self) -> Vectorizer | None:
        """The sentence model; none if it is not installed or has failed."""
        return self._embedder

    @property
    def threshold(self) -> float:
        """The least score of a match."""
        threshold = self._settings.search.threshold
        return DEFAULT_FIND_THRESHOLD if threshold is None else threshold

    async def prepare(self, spaces: Sequence[IndexedNamespace]) -> None:
        """Compute the index and missing vectors, so that no search has to wait for them."""
        await self._index(spaces)
        texts = [_namespace_text(space) for space in spaces]
        texts += [line for space in spaces for line in _tool_lines(space)]
        texts = texts[: MAX_CACHED_VECTORS // 2]
        await self._vectors_of(self._averages, texts)
        if self._embedder is not None:
            try:
                await self._vectors_of(self._embedder, texts)
                if isinstance(self._embedder, PieceSimilarity):
                    await self._count_pieces(self._embedder, spaces)
            except Exception:  # noqa: BLE001 - what a library raises is not known
                self._drop_embedder()

    async def find(
        self, query: str, spaces: Sequence[IndexedNamespace], limit: int = 10
    ) -> list[SearchMatch]:
        """Return up to `limit` matching namespaces, best first, in deterministic order.

        The list is empty if the query has no words.
        """
        query = query[:MAX_TOOL_QUERY_CHARACTERS]
        words = extract_words(query)
        if not words or not spaces or limit < 1:
            return []
        index = await self._index(spaces)
        hits = await asyncio.to_thread(match_keywords, words, spaces)
        is_name = any(hit.is_exact for hit in hits.values())
        by_words = await asyncio.to_thread(index.score, words, by_similarity=not is_name)
        self.embedded_queries += not is_name
        if is_name:
            scores = [value / (value + HALF_WORD_SCORE) for value in by_words]
        else:
            scores = await self._score_all(query, spaces, by_words)
        return self._choose(spaces, scores, hits)[:limit]

    def _choose(
        self,
        spaces: Sequence[IndexedNamespace],
        scores: Sequence[float],
        hits: Mapping[int, KeywordHit],
    ) -> list[SearchMatch]:
        """Return the namespaces whose score is not below the threshold, best first."""
        matches = []
        for number, (space, score) in enumerate(zip(spaces, scores, strict=True)):
            hit = hits.get(number)
            if hit is not None:
                score = 1.0 if hit.is_exact else max(score, self.threshold)
                matches.append(SearchMatch(space.id, score, hit.reason))
            elif score >= self.threshold:
                score *= BUILTIN_WEIGHT if space.id in DEFAULT_NAMESPACES else 1.0
                matches.append(SearchMatch(space.id, score, f"similar {score:.2f}"))
        return sorted(matches, key=_match_order)

    async def _index(self, spaces: Sequence[IndexedNamespace]) -> WordIndex:
        key = tuple(spaces)
        if (index := self._indexes.get(key)) is None:
            index = self._indexes[key] = await asyncio.to_thread(WordIndex, key)
        return index

    async def _score_all(
        self, query: str, spaces: Sequence[IndexedNamespace], by_words: Sequence[float]
    ) -> list[float]:
        """Return scores from 0 to 1 that grow with words and similarities."""
        averages = await self._compare(
            self._averages, query, spaces, by_words, AVERAGES_NAMESPACE_SHARE
        )
        sums = _add_weighted((WORD_WEIGHT_ALONE, by_words), (1.0, averages))
        if self._embedder is not None:
            try:
                sentences = await self._compare(self._embedder, query, spaces, by_words)
                of_model = _add_weighted(
                    (WORD_WEIGHT, by_words), (1.0, sentences), (AVERAGES_WEIGHT, averages)
                )
                if isinstance(self._embedder, PieceSimilarity):
                    pieces = await self._compare_pieces(self._embedder, query, spaces, of_model)
                    of_model = _add_weighted((1.0, of_model), (PIECES_WEIGHT, pieces))
                sums = of_model
            except Exception:  # noqa: BLE001 - what a library raises is not known
                self._drop_embedder()
        return [max(value, 0.0) / (max(value, 0.0) + HALF_COSINE) for value in sums]

    async def _compare(
        self,
        embedder: Vectorizer,
        query: str,
        spaces: Sequence[IndexedNamespace],
        by_words: Sequence[float],
        namespace_share: float = NAMESPACE_SHARE,
    ) -> list[float]:
        """Return the similarity of a query with each namespace and its best tools.

        Tools are compared for the best candidates alone.
        """
        descriptions = [_namespace_text(space) for space in spaces]
        vectors = await self._vectors_of(embedder, descriptions)
        query_vector = await asyncio.to_thread(embedder.embed_query, query)
        similarities = await asyncio.to_thread(
            cosine_similarities, query_vector, [vectors[text] for text in descriptions]
        )

        def rank(number: int) -> tuple[float, str]:
            score = CANDIDATE_WORD_WEIGHT * by_words[number] + similarities[number]
            return -score, spaces[number].id

        candidates = sorted(range(len(spaces)), key=rank)[:MAX_CANDIDATES]
        lines = {number: _tool_lines(spaces[number]) for number in candidates}
        vectors = await self._vectors_of(
            embedder, [text for tool_lines in lines.values() for text in tool_lines]
        )

        def compare_tools() -> list[float]:
            cosines = [namespace_share * similarity for similarity in similarities]
            for number, tool_lines in lines.items():
                tools = cosine_similarities(query_vector, [vectors[text] for text in tool_lines])
                best = sorted(tools, reverse=True)[:BEST_TOOLS] or [similarities[number]]
                cosines[number] += (1.0 - namespace_share) * sum(best) / len(best)
            return cosines

        return await asyncio.to_thread(compare_tools)

    async def _compare_pieces(
        self,
        pieces: PieceSimilarity,
        query: str,
        spaces: Sequence[IndexedNamespace],
        sums: Sequence[float],
    ) -> list[float]:
        """Return the similarity of a query with each namespace, piece by piece.

        Only the namespaces with the highest sums are compared; the others count as the least
        similar of these.
        """
        frequencies = await self._count_pieces(pieces, spaces)
        if not frequencies.is_comparable:
            return [0.0] * len(spaces)

        def rank(number: int) -> tuple[float, str]:
            return -sums[number], spaces[number].id

        candidates = sorted(range(len(spaces)), key=rank)[:MAX_CANDIDATES]
        texts = [_all_lines(spaces[number]) for number in candidates]
        await self._embed_missing(pieces, [text for lines in texts for text in lines])
        values = await asyncio.to_thread(pieces.compare, query, texts, frequencies)
        similarities = [min(values)] * len(spaces)
        for number, value in zip(candidates, values, strict=True):
            similarities[number] = value
        return similarities

    async def _count_pieces(
        self, pieces: PieceSimilarity, spaces: Sequence[IndexedNamespace]
    ) -> PieceFrequencies:
        key = tuple(spaces)
        if (frequencies := self._frequencies.get(key)) is None:
            frequencies = await asyncio.to_thread(
                pieces.count, [_all_lines(space) for space in spaces]
            )
            self._frequencies[key] = frequencies
        return frequencies

    def _drop_embedder(self) -> None:
        """Search by words alone from now on: a search must not fail with its library."""
        name = self._embedder.name if self._embedder else ""
        log.exception("the sentence model failed; searching by words from now on", name=name)
        self._embedder = None

    async def _vectors_of(
        self, embedder: Vectorizer, texts: Sequence[str]
    ) -> dict[str, array[float]]:
        """Cached or new vectors of texts; waits for those that another call computes."""
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
                vectors |= await self._embed(embedder, new_texts)
        return vectors

    async def _embed_missing(self, pieces: PieceSimilarity, texts: Sequence[str]) -> None:
        """Compute the pieces of texts that are not cached.

        Only then does a search wait for texts that another call embeds.
        """
        if await asyncio.to_thread(pieces.list_missing, texts):
            async with self._vectors_lock:
                await self._embed(pieces, await asyncio.to_thread(pieces.list_missing, texts))

    async def _embed(self, embedder: Vectorizer, texts: Sequence[str]) -> dict[str, array[float]]:
        """Compute and cache vectors of texts."""
        vectors = {}
        for start in range(0, len(texts), MAX_BATCH_TEXTS):
            batch = texts[start : start + MAX_BATCH_TEXTS]
            new_vectors = await asyncio.to_thread(embedder.embed, batch)
            for text, vector in zip(batch, new_vectors, strict=True):
                key = _vector_key(embedder.name, text)
                vectors[text] = self._vectors[key] = array("f", vector)
        return vectors

    def _cached_vectors(self, keys: dict[str, _VectorKey]) -> dict[str, array[float]]:
        vectors = {}
        for text, key in keys.items():
            if (vector := self._vectors.get(key)) is not None:
                vectors[text] = vector
        return vectors


def cosine_similarities(query: Sequence[float], vectors: Iterable[Sequence[float]]) -> list[float]:
    """Return the cosine of a vector with each of several, all of length 1."""
    return [sum(map(mul, query, vector)) for vector in vectors]


def _add_weighted(*terms: tuple[float, Sequence[float]]) -> list[float]:
    """Return the sums of scores, each list with its weight."""
    weights = [weight for weight, _ in terms]
    columns = zip(*(scores for _, scores in terms), strict=True)
    return [sum(map(mul, weights, column)) for column in columns]


def _match_order(match: SearchMatch) -> tuple[float, int, str]:
    return -match.score, match.id.count("."), match.id


def _namespace_text(space: IndexedNamespace) -> str:
    return f"{space.name}. {space.description}"[:MAX_TEXT_CHARACTERS]


def _tool_lines(space: IndexedNamespace) -> list[str]:
    return [line.replace("_", " ")[:MAX_TEXT_CHARACTERS] for line in space.tools[:MAX_TOOL_LINES]]


def _all_lines(space: IndexedNamespace) -> list[str]:
    return [_namespace_text(space), *_tool_lines(space)]


def _vector_key(embedder: str, text: str) -> _VectorKey:
    return embedder, hash_text(text)
