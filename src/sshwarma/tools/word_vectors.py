"""Similarity of English words, from signatures of 384 bits in `embedded/words`.

A signature has one bit for each axis of a sentence model's vector of the word: on which side of
the average it lies. The share of equal bits grows with the cosine of the vectors, and counting them
takes less than a microsecond without any library. `python -m benchmarks.word_table` writes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

from sshwarma.tools.stemming import MAX_CACHED_WORDS
from sshwarma.world.resources import resource_dir

SIGNATURE_BITS: Final = 384
SIGNATURE_BYTES: Final = SIGNATURE_BITS // 8

VOCABULARY_FILE: Final = "bert.words"
MORE_WORDS_FILE: Final = "more.words"
"""Words such as `delete` and `invoice`, which the vocabulary has only in pieces."""

SIGNATURES_FILE: Final = "signatures.bin"

COMMONEST_WORD_PLACE: Final = 1_990
"""Place in the vocabulary of its most frequent words; pieces and signs come before."""

COMMON_WORDS: Final = 10.0
"""Number of the most frequent words that are about equally common."""

_WORD: Final = re.compile(r"[a-z]{2,}")
_MIN_ROOT_LETTERS: Final = 3


@cache
def read_vocabulary() -> dict[str, int]:
    """Return the word pieces that BERT models know with their ids, in id order."""
    return {piece: number for number, piece in enumerate(_read_lines(VOCABULARY_FILE))}


def list_signed_words() -> list[str]:
    """Return the words that have a signature, in the order of the file."""
    whole = [piece for piece in read_vocabulary() if _WORD.fullmatch(piece)]
    return [*whole, *_read_lines(MORE_WORDS_FILE)]


def _read_lines(name: str) -> list[str]:
    file = resource_dir("embedded") / "words" / name
    return file.read_text(encoding="utf-8").splitlines()


def read_table(name: str) -> bytes:
    """Return a file of `embedded/words`, a row for each of `list_signed_words`."""
    return (resource_dir("embedded") / "words" / name).read_bytes()


@cache
def _read_signatures() -> bytes:
    """Return all signatures in one."""
    table = read_table(SIGNATURES_FILE)
    if len(table) != len(_number_words()) * SIGNATURE_BYTES:
        raise ValueError(f"{SIGNATURES_FILE} was computed for other words")
    return table


@cache
def _number_words() -> dict[str, int]:
    return {word: number for number, word in enumerate(list_signed_words())}


def find_number(word: str) -> int | None:
    """Return the row of a word or of its root; None if both are unknown."""
    numbers = _number_words()
    return next((numbers[form] for form in _possible_roots(word) if form in numbers), None)


@lru_cache(maxsize=MAX_CACHED_WORDS)
def measure_english_rarity(word: str) -> float:
    """Return the rarity of a word or its root in English: 0 for `the`, 1 if unknown.

    The vocabulary is in the order of frequency; the measure is the logarithm of the place.
    """
    places = read_vocabulary()
    place = next((places[form] for form in _possible_roots(word) if form in places), len(places))
    rarest = len(places) - COMMONEST_WORD_PLACE

    def measure(rank: float) -> float:
        return math.log((rank + COMMON_WORDS) / (1.0 + COMMON_WORDS))

    return min(measure(max(place - COMMONEST_WORD_PLACE, 1)) / measure(rarest), 1.0)


@lru_cache(maxsize=MAX_CACHED_WORDS)
def find_signature(word: str) -> int | None:
    """Return the signature of a word or of its root; none if both are unknown."""
    if (number := find_number(word)) is None:
        return None
    start = number * SIGNATURE_BYTES
    return int.from_bytes(_read_signatures()[start : start + SIGNATURE_BYTES])


def compare_signatures(one: int, other: int) -> float:
    """Return the similarity of two words, from -1 to 1; unrelated words are near 0."""
    return 1.0 - 2.0 * (one ^ other).bit_count() / SIGNATURE_BITS


def _possible_roots(word: str) -> Iterator[str]:
    yield word
    for ending, replacement in (("ies", "y"), ("s", ""), ("es", ""), ("ed", ""), ("d", ""),
                                ("ing", ""), ("ing", "e")):  # fmt: skip
        root = word.removesuffix(ending)
        if root != word and len(root) >= _MIN_ROOT_LETTERS:
            yield root + replacement
