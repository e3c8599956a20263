"""Finding a namespace by what one wants to do.

Words come first: a keyword, a name or an id that stands in the query says more than any likeness,
and costs nothing. Only if no word hits are query and namespaces compared as vectors. Everything
here that computes runs in a thread.
"""

from __future__ import annotations

import asyncio
import math
import re
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter, mul
from typing import Final, TypeVar

import structlog

from sshwarma.tools.embedding import LENGTH, Embedder, HashedNgrams
from sshwarma.tools.stemming import STOP, inflections, stem, words

log = structlog.get_logger(__name__)

T = TypeVar("T")

_Key = tuple[str, bytes]
"""The name of an embedder and the digest of a text."""

QUERY: Final = 2_000
"""Characters of a query that are read."""

REMEMBERED: Final = 10_000
"""Texts whose vectors are kept, 4 KiB each; of more, those not asked for longest are forgotten."""

BATCH: Final = 64
"""Texts that are embedded in one go."""

CANDIDATES: Final = 30
"""Namespaces that are looked at tool by tool."""

LINES: Final = 100
"""Tools of a namespace that are looked at one by one."""

WHOLE: Final = 0.75
"""What the whole namespace counts beside its best tool."""

SUPPORT: Final = 0.5
"""What it adds if all the query's other words occur in what a namespace says of itself, beside 1
for a keyword that it alone has."""

HALF: Final = 0.25
"""The hits that make a score of one half, where 1 is a keyword that a namespace alone has."""

INSIDE: Final = 0.5
"""What a hit is worth that is part of a longer one, as `test` is in `A/B test`."""

PREFIX: Final = 3
"""Letters of a name that are enough if nothing else was asked for."""

_PARTS: Final = re.compile(r"\s+(?:and|or|&)\s+|\s*[,/;&+]\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Space:
    """A namespace as one looks for it. `tools` are lines such as `push: Send commits`."""

    id: str
    name: str
    description: str
    keywords: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A namespace that fits, how well from 0 to 1, and what it was found by: `keyword create`,
    `name`, `similar 0.43`."""

    id: str
    score: float
    why: str


class Finder:
    """Finds namespaces. It remembers the vectors of their texts by the texts they were made from,
    so one that changes is looked at anew and the others are not."""

    def __init__(self, embedder: Embedder, threshold: float | None = None) -> None:
        """Likeness below `threshold`, 0 to 1, is none; the embedder's own if not given."""
        self._embedder = embedder
        self._threshold = threshold
        self._vectors: OrderedDict[_Key, array[float]] = OrderedDict()
        self._making = asyncio.Lock()
        self.embedded = 0
        """How many queries were made vectors of."""

    @property
    def embedder(self) -> Embedder:
        """What makes vectors now: hashed n-grams, once another has failed."""
        return self._embedder

    @property
    def threshold(self) -> float:
        """The least likeness that counts."""
        return self._embedder.threshold if self._threshold is None else self._threshold

    async def prepare(self, spaces: Sequence[Space]) -> None:
        """Make the vectors of what has changed, so that no search has to wait for them."""
        texts = [_about(space) for space in spaces]
        texts += [line for space in spaces for line in _lines(space)]

        async def work(embedder: Embedder) -> None:
            await self._vectors_of(embedder, texts[:REMEMBERED])

        await self._embedding(work)

    async def find(self, query: str, spaces: Sequence[Space], limit: int = 10) -> list[Found]:
        """The namespaces that fit, best first, at most `limit`; the same order for the same
        question. None for a query without words."""
        said = words(query[:QUERY])
        if not said or not spaces or limit < 1:
            return []
        found = await asyncio.to_thread(by_words, said, spaces)
        if found:
            return found[:limit]

        async def work(embedder: Embedder) -> list[Found]:
            return await self._alike(embedder, query[:QUERY], spaces, limit)

        return await self._embedding(work)

    async def _alike(
        self, embedder: Embedder, query: str, spaces: Sequence[Space], limit: int
    ) -> list[Found]:
        """Those most like the query as a whole; among them, a tool that is like it counts too."""
        abouts = [_about(space) for space in spaces]
        vectors = await self._vectors_of(embedder, abouts)
        self.embedded += 1
        [asked] = await asyncio.to_thread(embedder.embed, [query])
        whole = await asyncio.to_thread(likeness, asked, [vectors[about] for about in abouts])
        ranked = sorted(range(len(spaces)), key=lambda number: (-whole[number], spaces[number].id))
        nearest = ranked[: max(CANDIDATES, limit)]
        lines = {number: _lines(spaces[number]) for number in nearest}
        vectors = await self._vectors_of(embedder, [text for own in lines.values() for text in own])

        def judge() -> list[Found]:
            found = []
            for number, own in lines.items():
                best = max(likeness(asked, [vectors[text] for text in own]), default=whole[number])
                score = min(max(WHOLE * whole[number] + (1.0 - WHOLE) * best, 0.0), 1.0)
                if score >= self.threshold:
                    found.append(Found(spaces[number].id, score, f"similar {score:.2f}"))
            return sorted(found, key=_order)[:limit]

        return await asyncio.to_thread(judge)

    async def _vectors_of(
        self, embedder: Embedder, texts: Sequence[str]
    ) -> dict[str, array[float]]:
        """The vectors of texts, remembered or made. Who needs one that is being made waits."""
        keys = await asyncio.to_thread(
            lambda: {text: _key(embedder.name, text) for text in texts},
        )
        found = self._remembered(keys)
        if len(found) < len(keys):
            async with self._making:
                found = self._remembered(keys)  # another may have made them meanwhile
                missing = [text for text in keys if text not in found]
                for at in range(0, len(missing), BATCH):
                    batch = missing[at : at + BATCH]
                    made = await asyncio.to_thread(embedder.embed, batch)
                    for text, vector in zip(batch, made, strict=True):
                        found[text] = self._vectors[keys[text]] = array("f", vector)
                    while len(self._vectors) > REMEMBERED:
                        self._vectors.popitem(last=False)
        return found

    def _remembered(self, keys: dict[str, _Key]) -> dict[str, array[float]]:
        found = {}
        for text, key in keys.items():
            if (vector := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
                found[text] = vector
        return found

    async def _embedding(self, work: Callable[[Embedder], Awaitable[T]]) -> T:
        """Do it with the embedder, and if that breaks, from then on with the one that needs
        nothing: a search must not fail for a library that does."""
        embedder = self._embedder
        if not isinstance(embedder, HashedNgrams):
            try:
                return await work(embedder)
            except Exception:
                log.exception("an embedder failed; hashed n-grams from now on", name=embedder.name)
                self._embedder = HashedNgrams()
        return await work(self._embedder)


def likeness(asked: Sequence[float], vectors: Iterable[Sequence[float]]) -> list[float]:
    """The cosine of a vector with each of several, all of length 1."""
    places = [place for place, value in enumerate(asked) if value]
    if not 1 < len(places) < len(asked) // 2:
        return [sum(map(mul, asked, vector)) for vector in vectors]
    pick, values = itemgetter(*places), [asked[place] for place in places]
    return [sum(map(mul, values, pick(vector))) for vector in vectors]


def by_words(said: Sequence[str], spaces: Sequence[Space]) -> list[Found]:
    """Those whose keywords, name or id stand in the words of a query, by number and rarity."""
    hits: dict[int, dict[tuple[int, int], str]] = {}
    for number, space in enumerate(spaces):
        if own := _hits(said, _terms(space)):
            hits[number] = own
    if not hits:
        return _begun(said, spaces)
    sharing: dict[tuple[int, int], int] = {}
    for own in hits.values():
        for span in own:
            sharing[span] = sharing.get(span, 0) + 1
    found = []
    roots = {stem(word) for word in said if word not in STOP}
    for number, own in hits.items():
        space, terms = spaces[number], _terms(spaces[number])
        weight = 0.0
        for span in own:
            rarity = math.log1p(len(spaces) / sharing[span]) / math.log1p(len(spaces))
            weight += rarity * (INSIDE if _within(span, sharing) else 1.0)
        best = max(own, key=lambda span: (span[1] - span[0], -sharing[span], -span[0]))
        weight += SUPPORT * len(roots & terms.roots) / max(len(roots), 1)
        if exactly := terms.exact.get(tuple(said)):
            found.append(Found(space.id, 1.0, exactly))
        else:
            found.append(Found(space.id, weight / (weight + HALF), own[best]))
    return sorted(found, key=_order)


def _begun(said: Sequence[str], spaces: Sequence[Space]) -> list[Found]:
    """For a single word: those of whose name or id a word begins with it."""
    if len(said) != 1 or len(said[0]) < PREFIX:
        return []
    return sorted(
        (
            Found(space.id, 0.5, "name")
            for space in spaces
            if any(word.startswith(said[0]) for word in _terms(space).named)
        ),
        key=_order,
    )


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a namespace is called: phrases by any form of their first word, each the forms of its
    words and what it is."""

    phrases: dict[str, list[tuple[tuple[frozenset[str], ...], str]]]
    exact: dict[tuple[str, ...], str]  # the words of its name and of its id, and which they are
    named: tuple[str, ...]  # the words of both
    roots: frozenset[str]  # the stems of all it says of itself


@lru_cache(maxsize=4_096)
def _terms(space: Space) -> _Terms:
    called: dict[tuple[str, ...], str] = {}
    for text, what in _called(space):
        phrase = tuple(words(text))
        if phrase and (what not in ("id", "name") or not STOP.issuperset(phrase)):
            called.setdefault(phrase, what)
    phrases: dict[str, list[tuple[tuple[frozenset[str], ...], str]]] = {}
    for phrase, what in called.items():
        forms = tuple(inflections(word) for word in phrase)
        for form in forms[0]:
            phrases.setdefault(form, []).append((forms, what))
    roots = frozenset(stem(word) for word in words(_about(space)) if word not in STOP)
    name, own_id = tuple(words(space.name)), tuple(words(space.id))
    return _Terms(phrases, {name: "name", own_id: "id"}, (*own_id, *name), roots)


def _called(space: Space) -> Iterator[tuple[str, str]]:
    """What a namespace is called, and what that is."""
    for keyword in space.keywords:
        yield keyword, f"keyword {keyword}"
    yield space.id, "id"
    yield space.name, "name"
    yield space.id.rpartition(".")[2], "id"
    for part in _PARTS.split(space.name):
        yield part, "name"


def _hits(said: Sequence[str], terms: _Terms) -> dict[tuple[int, int], str]:
    """From which word to which what occurs in a query."""
    found: dict[tuple[int, int], str] = {}
    for at, word in enumerate(said):
        for forms, what in terms.phrases.get(word, ()):
            end = at + len(forms)
            if end <= len(said) and all(map(frozenset.__contains__, forms, said[at:end])):
                found.setdefault((at, end), what)
    return found


def _within(span: tuple[int, int], spans: Iterable[tuple[int, int]]) -> bool:
    start, end = span
    return any(other != span and other[0] <= start and end <= other[1] for other in spans)


def _order(found: Found) -> tuple[float, int, str]:
    return -found.score, found.id.count("."), found.id


def _about(space: Space) -> str:
    """All that a namespace says of itself, as one text."""
    said = (f"{space.name}. {space.description}", ", ".join(space.keywords), *space.tools)
    return "\n".join(said)[:LENGTH]


def _lines(space: Space) -> list[str]:
    return [line[:LENGTH] for line in space.tools[:LINES]]


def _key(embedder: str, text: str) -> _Key:
    """A text may be long; what is kept of it is not."""
    return embedder, blake2b(text.encode(errors="replace"), digest_size=16).digest()
