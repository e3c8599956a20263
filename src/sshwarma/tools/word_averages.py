"""Vectors of texts as sums of learned word vectors, in plain Python.

`embedded/words/meanings.bin` has one row for each word that has a signature: a scale and 96 bytes.
How much a word says is the length of its vector. `python -m benchmarks.train_finding` learns them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from sshwarma.tools.stemming import extract_words, split_camel_case
from sshwarma.tools.word_vectors import find_number, list_signed_words, read_table

MEANINGS_FILE: Final = "meanings.bin"
MEANING_DIMENSIONS: Final = 96

_SCALE: Final = struct.Struct("<e")
_ROW_BYTES: Final = _SCALE.size + MEANING_DIMENSIONS


class WordAverages:
    """Embeds a text as the sum of its words' vectors, from a table of 2.7 MB."""

    name: Final = "word-averages"
    dimensions: Final = MEANING_DIMENSIONS

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector for each text, or zeros for one without known words."""
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query: that of any text."""
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        values = [sum(column) for column in zip(*_find_rows(text), strict=True)]
        norm = math.sqrt(sum(value * value for value in values))
        return [value / norm for value in values] if norm else [0.0] * self.dimensions


@cache
def _read_meanings() -> memoryview:
    table = read_table(MEANINGS_FILE)
    if len(table) != len(list_signed_words()) * _ROW_BYTES:
        raise ValueError(f"{MEANINGS_FILE} was computed for other words")
    return memoryview(table)


def _find_rows(text: str) -> Iterator[list[float]]:
    """Return the vectors of the words of a text that have one."""
    table = _read_meanings()
    for word in extract_words(split_camel_case(text.replace("_", " "))):
        if (number := find_number(word)) is not None:
            start = number * _ROW_BYTES
            [scale] = _SCALE.unpack_from(table, start)
            row = table[start + _SCALE.size : start + _ROW_BYTES].cast("b")
            yield [scale * value for value in row]
