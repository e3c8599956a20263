r"""Learn `meanings.bin` and `adapter.bin`; needs torch and the extra.

    python -m benchmarks.train_finding --debian FILE

The file is apt's list of descriptions of Debian's packages, `Translation-en` of bookworm, unpacked
(`/usr/lib/apt/apt-helper cat-file`). Without it, the adapter alone is learned.

Word vectors begin as the sentence model's, and learn two things at once: cosines of texts as the
model has them, and to find the text of a pair among those of 127 others. `train_adapter` learns the
adapter from the sentences of this repository alone. Word vectors do not learn from those of
`pairs_2.txt`: with them, they find fewer of the MCP servers.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any, Final

from benchmarks.train_adapter import train_adapter
from benchmarks.training_pairs import (
    Pairs,
    list_texts,
    read_namespaces,
    read_own,
    read_packages,
)
from sshwarma.tools.embedding import ADAPTER_FILE, ADAPTER_STEP, MiniLM
from sshwarma.tools.stemming import extract_words, split_camel_case
from sshwarma.tools.word_averages import MEANING_DIMENSIONS, MEANINGS_FILE
from sshwarma.tools.word_vectors import find_number, list_signed_words, measure_english_rarity

TARGET: Final = Path(__file__).parent.parent / "embedded" / "words"

TRAINED_DIMENSIONS: Final = 128
WORD_MIX: Final = {"own": 0.7, "debian": 0.3}
PACKAGES: Final = 4_000


def choose_batch(
    sources: dict[str, Pairs], mix: dict[str, float], size: int, chance: random.Random
) -> list[tuple[str, str]]:
    """Return pairs of one source, each of another tool."""
    names = [name for name in mix if sources.get(name)]
    pairs = sources[chance.choices(names, [mix[name] for name in names])[0]]
    return [chance.choice(pairs[key]) for key in chance.sample(list(pairs), min(size, len(pairs)))]


def contrast(queries: Any, texts: Any, batch: list[tuple[str, str]], sharpness: float) -> Any:
    """Return the loss of finding each text by its query, and a third of the reverse."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    scores = sharpness * queries @ texts.T
    same = [[one[1] == other[1] and one is not other for other in batch] for one in batch]
    scores = scores.masked_fill(torch.tensor(same), -1e4)
    right = torch.arange(len(batch))
    loss = torch.nn.functional.cross_entropy
    return (2 * loss(scores, right) + loss(scores.T, right)) / 3


def train_words(sources: dict[str, Pairs], texts: list[str], vectors: Any, steps: int) -> Any:
    """Return a vector for each signed word."""
    import numpy  # type: ignore[import-not-found,unused-ignore]
    import torch  # type: ignore[import-not-found,unused-ignore]

    chance = random.Random(1)
    words = list_signed_words()
    start = numpy.array([text.vector for text in MiniLM().embed_unadapted(words)])
    start -= start.mean(axis=0)
    start = start @ numpy.linalg.svd(start[::3], full_matrices=False)[2][:TRAINED_DIMENSIONS].T
    start /= numpy.linalg.norm(start, axis=1, keepdims=True)
    start *= numpy.array([[0.15 + measure_english_rarity(word)] for word in words])
    blank = numpy.zeros((1, TRAINED_DIMENSIONS))
    table = torch.nn.Parameter(torch.tensor(numpy.vstack([start, blank]), dtype=torch.float32))
    stretch = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
    optimizer = torch.optim.Adam([{"params": [table]}, {"params": [stretch], "lr": 1e-2}])

    def embed(rows: list[list[int]]) -> Any:
        rows = [row or [len(words)] for row in rows]
        ends = numpy.cumsum([0, *(len(row) for row in rows)])[:-1]
        flat = torch.tensor([number for row in rows for number in row])
        summed = torch.nn.functional.embedding_bag(flat, table, torch.tensor(ends), mode="sum")
        return summed / (summed.norm(dim=-1, keepdim=True) + 1e-3)

    rows = {text: find_rows(text) for text in texts}
    others = ~torch.eye(512, dtype=torch.bool)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = 3e-3 * min(step / 50, 1) * (1 - step / (steps + 1))
        chosen = chance.sample(range(len(texts)), 512)
        made = embed([rows[texts[number]] for number in chosen])
        made, taught = made @ made.T, vectors[chosen] @ vectors[chosen].T
        loss = 100 * ((stretch[0] * made + stretch[1] - taught)[others] ** 2).mean()
        loss += torch.nn.functional.kl_div(
            torch.log_softmax((12 * made).masked_fill(~others, -1e4), 1),
            torch.softmax((12 * taught).masked_fill(~others, -1e4), 1),
            reduction="batchmean",
        )
        batch = choose_batch(sources, WORD_MIX, 128, chance)
        both = embed([rows[pair[side]] for side in (0, 1) for pair in batch])
        loss += contrast(both[: len(batch)], both[len(batch) :], batch, 15.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return table.detach().numpy()[:-1]


def find_rows(text: str) -> list[int]:
    """Return the numbers of a text's words, as `WordAverages` reads it."""
    words = extract_words(split_camel_case(text.replace("_", " ")))
    return [number for word in words if (number := find_number(word)) is not None]


def write_words(table: Any) -> None:
    """Write the most telling dimensions, each row as a scale and bytes."""
    import numpy  # type: ignore[import-not-found,unused-ignore]

    table = table @ numpy.linalg.svd(table, full_matrices=False)[2][:MEANING_DIMENSIONS].T
    scales = (numpy.abs(table).max(axis=1, keepdims=True) / 127 + 1e-7).astype("<f2")
    values = numpy.clip(numpy.round(table / scales.astype(float)), -127, 127).astype(numpy.int8)
    rows = numpy.hstack([scales.view(numpy.uint8), values.view(numpy.uint8)])
    (TARGET / MEANINGS_FILE).write_bytes(rows.tobytes())


def main() -> None:
    import numpy  # type: ignore[import-not-found,unused-ignore]
    import torch  # type: ignore[import-not-found,unused-ignore]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--debian", type=Path)
    parser.add_argument("--word-steps", type=int, default=600)
    parser.add_argument("--adapter-steps", type=int, default=240)
    given = parser.parse_args()
    torch.set_num_threads(1)
    adapter = train_adapter(read_namespaces(), given.adapter_steps)
    adapter = numpy.clip(numpy.round(adapter / ADAPTER_STEP), -127, 127).astype(numpy.int8)
    (TARGET / ADAPTER_FILE).write_bytes(adapter.tobytes())
    if given.debian is None:
        return
    sources = {"own": read_own(), "debian": read_packages(given.debian)}
    packages = sorted(sources["debian"].items())
    sources["debian"] = dict(random.Random(5).sample(packages, min(len(packages), PACKAGES)))
    texts = list_texts(sources)
    print({name: sum(map(len, pairs.values())) for name, pairs in sources.items()}, len(texts))
    vectors = torch.tensor([text.vector for text in MiniLM().embed_unadapted(texts)])
    write_words(train_words(sources, texts, vectors, given.word_steps))


if __name__ == "__main__":
    main()
