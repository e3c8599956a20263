"""Learn the matrices of `adapter.bin`; `train_finding` runs it.

All four learn at once, by the score of the program without its words: each of two sentences for
each of 64 namespaces has to find its own among the 64. Whole texts and pieces learn that each
alone, too, so that neither relies on the other. The average of five beginnings is kept.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.training_pairs import TrainingNamespace
from sshwarma.tools.embedding import (
    PIECES,
    QUERY_SIDE,
    TEXT_SIDE,
    WHOLE_TEXTS,
    EmbeddedText,
    MiniLM,
)
from sshwarma.tools.piece_similarity import PieceFrequencies, is_compared
from sshwarma.tools.search import BEST_TOOLS, NAMESPACE_SHARE, PIECES_WEIGHT

RANK: Final = 64
SEEDS: Final = 5
BATCH_NAMESPACES: Final = 64
BATCH_SENTENCES: Final = 2
SHARPNESS: Final = 20.0
SHARPNESS_ALONE: Final = 30.0
WEIGHT_ALONE: Final = 0.3

Matrix = tuple[Any, Any]
"""Two narrow matrices. The product of a vector with both is added to it."""


@dataclass(frozen=True)
class EmbeddedQuery:
    """A sentence as the model has it; `rows` belong to `pieces`."""

    vector: Any
    pieces: list[str]
    rows: Any


@dataclass(frozen=True)
class EmbeddedNamespace:
    """A namespace as the model has it.

    `vectors` are those of its own text and of its tools, `rows` those of the pieces of all texts.
    """

    vectors: Any
    rows: Any
    pieces: set[str]
    queries: list[EmbeddedQuery]


def embed_namespaces(spaces: Sequence[TrainingNamespace]) -> list[EmbeddedNamespace]:
    """Run the model over all texts and sentences."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    model = MiniLM()

    def choose_rows(text: EmbeddedText) -> Any:
        chosen = [number for number, piece in enumerate(text.pieces) if is_compared(piece)]
        return torch.tensor(text.piece_vectors[chosen], dtype=torch.float32)

    def embed_query(text: EmbeddedText) -> EmbeddedQuery:
        pieces = [piece for piece in text.pieces if is_compared(piece)]
        return EmbeddedQuery(torch.tensor(text.vector), pieces, choose_rows(text))

    made = []
    for space in spaces:
        texts = model.embed_unadapted([space.text, *space.tools])
        asked = model.embed_unadapted([query for query, _ in space.sentences])
        made.append(
            EmbeddedNamespace(
                torch.tensor([text.vector for text in texts]),
                torch.cat([choose_rows(text) for text in texts]),
                {piece for text in texts for piece in text.pieces},
                [embed_query(text) for text in asked],
            )
        )
    return made


def bend(vectors: Any, matrix: Matrix) -> Any:
    """Return the adapted vectors, with length 1."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    down, up = matrix
    return torch.nn.functional.normalize(vectors + (vectors @ down) @ up, dim=-1)


def compare_whole(
    queries: Sequence[EmbeddedQuery],
    spaces: Sequence[EmbeddedNamespace],
    matrices: Sequence[Matrix],
) -> Any:
    """Return the cosines with namespaces and their best tools: a row for each query."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    asked = bend(torch.stack([query.vector for query in queries]), matrices[QUERY_SIDE])
    texts = bend(torch.cat([space.vectors for space in spaces]), matrices[TEXT_SIDE])
    columns = []
    for own in (asked @ texts.T).split([len(space.vectors) for space in spaces], dim=1):
        tools = own[:, 1:] if own.shape[1] > 1 else own
        best = tools.topk(min(BEST_TOOLS, tools.shape[1]), dim=1).values.mean(dim=1)
        columns.append(NAMESPACE_SHARE * own[:, 0] + (1.0 - NAMESPACE_SHARE) * best)
    return torch.stack(columns, dim=1)


def compare_pieces(
    queries: Sequence[EmbeddedQuery],
    spaces: Sequence[EmbeddedNamespace],
    matrices: Sequence[Matrix],
) -> Any:
    """Return the similarity piece by piece: a row for each query."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    asked = bend(torch.cat([query.rows for query in queries]), matrices[QUERY_SIDE])
    texts = bend(torch.cat([space.rows for space in spaces]), matrices[TEXT_SIDE])
    cosines = (asked @ texts.T).split([len(space.rows) for space in spaces], dim=1)
    nearest = torch.stack([own.max(dim=1).values for own in cosines], dim=1)
    having = Counter(piece for space in spaces for piece in space.pieces)
    frequencies = PieceFrequencies(having, len(spaces), 0)
    rows = []
    for query, own in zip(
        queries, nearest.split([len(query.pieces) for query in queries]), strict=True
    ):
        weights = torch.tensor([frequencies.weigh(piece) for piece in query.pieces])
        rows.append(weights @ own / weights.sum().clamp(min=1e-9))
    return torch.stack(rows)


def train_once(spaces: Sequence[EmbeddedNamespace], steps: int, seed: int) -> Any:
    """Return what to add to vectors, of shape (texts or pieces, side, 384, 384)."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    torch.manual_seed(seed)
    chance = random.Random(seed)
    down = torch.nn.Parameter(torch.randn(2, 2, MiniLM.dimensions, RANK) / 20)
    up = torch.nn.Parameter(torch.zeros(2, 2, RANK, MiniLM.dimensions))
    optimizer = torch.optim.Adam([down, up])
    loss_of = torch.nn.functional.cross_entropy
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-3 * (1 - step / steps)
        chosen = chance.sample(spaces, min(BATCH_NAMESPACES, len(spaces)))
        queries, right = [], []
        for number, space in enumerate(chosen):
            for query in chance.sample(space.queries, min(BATCH_SENTENCES, len(space.queries))):
                queries.append(query)
                right.append(number)
        whole, pieces = (
            compare(queries, chosen, list(zip(down[part], up[part], strict=True)))
            for part, compare in ((WHOLE_TEXTS, compare_whole), (PIECES, compare_pieces))
        )
        wanted = torch.tensor(right)
        loss = loss_of(SHARPNESS * (whole + PIECES_WEIGHT * pieces), wanted)
        for alone in (whole, pieces):
            loss = loss + WEIGHT_ALONE * loss_of(SHARPNESS_ALONE * alone, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (down @ up).detach()


def train_adapter(spaces: Sequence[TrainingNamespace], steps: int) -> Any:
    """Return the average of what several beginnings learn, as `train_once` has it."""
    embedded = [space for space in embed_namespaces(spaces) if space.queries]
    total = sum(train_once(embedded, steps, seed) / SEEDS for seed in range(SEEDS))
    return total.numpy()
