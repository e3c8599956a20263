"""Similarity of a query and namespaces, piece by piece.

This is the late interaction (MaxSim) of ColBERT. A sentence model gives each piece of a text a
vector in its context. A piece of a query is as similar to a namespace as to the nearest piece of
any of its texts. The average over the pieces of the query is the similarity; pieces that few
namespaces have weigh more. Needs numpy.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache
from typing_extensions import override

from sshwarma.tools.embedding import (
    UNKNOWN_PIECE,
    EmbeddedText,
    PieceVectorizer,
    Vectorizer,
    hash_text,
)
from sshwarma.tools.stemming import STOP_WORDS

MAX_CACHED_PIECES: Final = 150_000
"""Maximum number of pieces whose vectors are cached, 384 bytes each: up to 58 MB. The least
recently used texts are evicted. A world with more is not compared piece by piece, because most
searches would then embed texts again."""

MAX_CACHED_QUERIES: Final = 32
"""Maximum number of cached queries, 1.5 KiB a piece: sentences and pieces are compared one after
the other, and the model runs once."""

STOP_WORD_WEIGHT: Final = 0.3
"""Weight of a stop word in a query, relative to other words that as many namespaces have."""

UNRELATED_SIMILARITY: Final = 0.14
"""Similarity that is subtracted: any two texts have pieces that are a little alike. With it, about
as many right and unrelated namespaces are above the threshold as by sentences alone."""

BYTE_RANGE: Final = 127
"""The vector of a piece is kept as bytes from -127 to 127, of which one is at an end."""


@dataclass(frozen=True, slots=True)
class PieceFrequencies:
    """How many namespaces have each piece.

    `size` is the number of all pieces that are compared, and of texts.
    """

    having: Mapping[str, int]
    namespaces: int
    size: int

    @property
    def is_comparable(self) -> bool:
        """Whether the vectors of all pieces fit in the cache."""
        return self.size <= MAX_CACHED_PIECES

    def weigh(self, piece: str) -> float:
        """Return the weight of a piece of a query, or 0 for punctuation.

        It grows with the inverse of the share of namespaces that have the piece.
        """
        if not is_compared(piece):
            return 0.0
        weight = math.log((self.namespaces + 1.0) / (self.having.get(piece, 0) + 0.5))
        return weight * (STOP_WORD_WEIGHT if piece in STOP_WORDS else 1.0)


class PieceSimilarity(Vectorizer):
    """Compares texts piece by piece, and keeps the vectors of pieces.

    Rows of bytes take a quarter of the model's numbers, and find the same. All methods may be
    called in several threads.
    """

    def __init__(self, model: PieceVectorizer) -> None:
        """Set the model, which runs once for each text."""
        self._model = model
        self._rows: LRUCache[bytes, Any] = LRUCache(MAX_CACHED_PIECES, _measure_size)
        self._queries: LRUCache[str, EmbeddedText] = LRUCache(MAX_CACHED_QUERIES)
        self._lock = threading.Lock()

    @property
    @override
    def name(self) -> str:
        return self._model.name

    @property
    @override
    def dimensions(self) -> int:
        return self._model.dimensions

    @override
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        embedded = self._model.embed_with_pieces(texts)
        rows = [_make_rows(text) for text in embedded]
        with self._lock:
            self._rows.update(zip(map(hash_text, texts), rows, strict=True))
        return [text.vector for text in embedded]

    @override
    def embed_query(self, text: str) -> list[float]:
        return self._embed_query(text).vector

    def list_missing(self, texts: Sequence[str]) -> list[str]:
        """Return the texts whose pieces are not cached; `embed` computes them."""
        with self._lock:
            return [text for text in dict.fromkeys(texts) if hash_text(text) not in self._rows]

    def count(self, namespaces: Sequence[Sequence[str]]) -> PieceFrequencies:
        """Count the pieces of namespaces, each given as its texts."""
        having: Counter[str] = Counter()
        size = 0
        for texts in namespaces:
            pieces = [self._model.split(text) for text in texts]
            having.update({piece for own in pieces for piece in own})
            size += sum(1 + sum(map(is_compared, own)) for own in pieces)
        return PieceFrequencies(having, len(namespaces), size)

    def compare(
        self, query: str, namespaces: Sequence[Sequence[str]], frequencies: PieceFrequencies
    ) -> list[float]:
        """Return how much more similar a query is to each namespace than unrelated texts.

        It is 0 for all if the query has no piece that is compared. `einsum` computes in this
        thread alone; a product of matrices has threads that wait for each other if the processors
        are busy.

        Args:
            query: the text of the query.
            namespaces: the texts of each namespace; those that are not cached do not count.
            frequencies: the frequencies of pieces among all namespaces.
        """
        embedded = self._embed_query(query)
        weights = [frequencies.weigh(piece) for piece in embedded.pieces]
        if not any(weights):
            return [0.0] * len(namespaces)
        with self._lock:
            rows = [self._find_rows(texts) for texts in namespaces]
        numpy = importlib.import_module("numpy")
        vectors = embedded.piece_vectors / _measure_lengths(embedded.piece_vectors)
        shares = numpy.array(weights) / sum(weights)
        similarities = [0.0] * len(namespaces)
        for number, own in enumerate(rows):
            if own:
                texts = numpy.concatenate(own).astype(numpy.float32)
                cosines = numpy.einsum("td,qd->tq", texts, vectors) / _measure_lengths(texts)
                similarities[number] = float(cosines.max(axis=0) @ shares)
        return [similarity - UNRELATED_SIMILARITY for similarity in similarities]

    def _find_rows(self, texts: Sequence[str]) -> list[Any]:
        found = (self._rows.get(hash_text(text)) for text in texts)
        return [rows for rows in found if rows is not None and len(rows)]

    def _embed_query(self, text: str) -> EmbeddedText:
        with self._lock:
            embedded = self._queries.get(text)
        if embedded is None:
            embedded = self._model.embed_query_with_pieces(text)
            with self._lock:
                self._queries[text] = embedded
        return embedded


def is_compared(piece: str) -> bool:
    """Return whether a piece is one of a word, not punctuation or unknown signs."""
    return piece != UNKNOWN_PIECE and any(sign.isalnum() for sign in piece)


def _make_rows(text: EmbeddedText) -> Any:
    """Return the directions of the vectors of a text's pieces, as bytes."""
    numpy = importlib.import_module("numpy")
    chosen = [number for number, piece in enumerate(text.pieces) if is_compared(piece)]
    vectors = text.piece_vectors[chosen]
    largest = numpy.abs(vectors).max(axis=1, keepdims=True, initial=1e-9)
    return numpy.round(vectors * (BYTE_RANGE / largest)).astype(numpy.int8)


def _measure_lengths(vectors: Any) -> Any:
    numpy = importlib.import_module("numpy")
    lengths = numpy.sqrt(numpy.einsum("pd,pd->p", vectors, vectors))
    return numpy.maximum(lengths, 1e-9)[:, numpy.newaxis]


def _measure_size(rows: Any) -> int:
    """Return the number of pieces of a text, and 1 for the text itself."""
    return 1 + len(rows)
