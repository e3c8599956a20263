"""Write word signatures to embedded/words, with the sentence model of the extra.

    python -m benchmarks.word_table

A word's vector, less the average of all words, is turned by a fixed random rotation, so that every
bit carries as much as any other; the bits are the signs.
"""

from __future__ import annotations

import random
from pathlib import Path

from sshwarma.tools.embedding import MiniLM
from sshwarma.tools.word_vectors import SIGNATURE_BITS, SIGNATURES_FILE, list_signed_words

TARGET = Path(__file__).parent.parent / "embedded" / "words" / SIGNATURES_FILE


def make_rotation(size: int) -> list[list[float]]:
    """Return orthogonal axes, by Gram-Schmidt of random ones; the same in every run."""
    source = random.Random(23)
    axes: list[list[float]] = []
    while len(axes) < size:
        axis = [source.gauss(0.0, 1.0) for _ in range(size)]
        for other in axes:
            share = sum(a * b for a, b in zip(axis, other, strict=True))
            axis = [a - share * b for a, b in zip(axis, other, strict=True)]
        length = sum(value * value for value in axis) ** 0.5
        axes.append([value / length for value in axis])
    return axes


def main() -> None:
    import numpy  # type: ignore[import-not-found,unused-ignore]

    embedded = MiniLM().embed_unadapted(list_signed_words())
    vectors = numpy.array([text.vector for text in embedded])
    turned = (vectors - vectors.mean(axis=0)) @ numpy.array(make_rotation(SIGNATURE_BITS)).T
    TARGET.write_bytes(numpy.packbits(turned > 0.0, axis=1).tobytes())
    print(f"{len(vectors):,} words, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
