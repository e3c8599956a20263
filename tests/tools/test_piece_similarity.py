"""Comparing a query with namespaces piece by piece."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
import threading
from collections.abc import Sequence

import pytest

from sshwarma.tools import piece_similarity
from sshwarma.tools.embedding import (
    ADAPTER_FILE,
    ADAPTER_STEP,
    UNKNOWN_PIECE,
    EmbeddedText,
    MiniLM,
)
from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.piece_similarity import (
    STOP_WORD_WEIGHT,
    UNRELATED_SIMILARITY,
    PieceFrequencies,
    PieceSimilarity,
)
from sshwarma.tools.search import NamespaceSearch
from sshwarma.tools.word_vectors import read_table

needs_numpy = pytest.mark.skipif(
    importlib.util.find_spec("numpy") is None, reason="the extra is not installed"
)

VECTORS = {
    "mail": (1.0, 0.0, 0.0, 0.0),
    "letter": (0.8, 0.6, 0.0, 0.0),
    "write": (0.0, 0.0, 1.0, 0.0),
    "read": (0.0, 0.0, 0.6, 0.8),
}
ELSEWHERE = (0.0, 0.0, 0.0, -1.0)
"""The vector of all other pieces; no cosine with those above is positive."""


class KnownPieces:
    """A model whose texts have the same vector, and whose pieces have those above."""

    name = "known-pieces"
    dimensions = 4

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.threads: set[int] = set()
        self.fails = False

    def split(self, text: str) -> list[str]:
        return re.findall(r"\[UNK\]|\w+|[^\w\s]", text.lower().replace("[unk]", UNKNOWN_PIECE))

    def embed_query_with_pieces(self, text: str) -> EmbeddedText:
        if self.fails:
            raise RuntimeError("no memory for the session")
        self.runs.append(text)
        self.threads.add(threading.get_ident())
        numpy = importlib.import_module("numpy")
        pieces = self.split(text)
        rows = [VECTORS.get(piece, ELSEWHERE) for piece in pieces]
        return EmbeddedText(
            [1.0, 0.0, 0.0, 0.0], pieces, 5.0 * numpy.array(rows).reshape(-1, self.dimensions)
        )

    def embed_with_pieces(self, texts: Sequence[str]) -> list[EmbeddedText]:
        return [self.embed_query_with_pieces(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_query_with_pieces(text).vector

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class WholeTexts:
    """The same model, without the vectors of pieces."""

    name = "whole-texts"
    dimensions = KnownPieces.dimensions

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0, 0.0, 0.0]

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def compare(query: str, *namespaces: Sequence[str]) -> list[float]:
    """The similarities of a query with namespaces, each given as its texts."""
    pieces = PieceSimilarity(KnownPieces())
    pieces.embed([text for texts in namespaces for text in texts])
    compared = pieces.compare(query, namespaces, pieces.count(namespaces))
    return [similarity + UNRELATED_SIMILARITY for similarity in compared]


def expected(value: float) -> object:
    """A similarity, with the rounding of bytes."""
    return pytest.approx(value, abs=0.01)


@needs_numpy
@pytest.mark.parametrize(
    ("texts", "similarity"),
    [
        (["mail"], 1.0),
        (["letter"], 0.8),
        (["other", "things, a letter"], 0.8),
        (["letter", "other mail"], 1.0),
        (["write"], 0.0),
        (["other"], 0.0),
        ([""], 0.0),
        (["?!"], 0.0),
        ([], 0.0),
    ],
)
def test_piece_is_as_similar_as_the_nearest_piece_of_any_text(
    texts: list[str], similarity: float
) -> None:
    assert compare("mail", texts) == [expected(similarity)]


@needs_numpy
def test_similarity_is_the_average_over_the_pieces_of_the_query() -> None:
    [similarity] = compare("mail write", ["letter read"])
    assert similarity == expected((0.8 + 0.6) / 2)


@needs_numpy
def test_piece_that_few_namespaces_have_weighs_more() -> None:
    rare, *others = compare("mail write", ["mail"], ["write"], ["write other"], ["write more"])
    assert rare > 0.5 > max(others)
    assert rare + others[0] == expected(1.0)


def test_weight_of_a_piece_is_its_inverse_frequency() -> None:
    frequencies = PieceFrequencies({"git": 1, "the": 1, "code": 9}, 9, 20)
    assert frequencies.weigh("pod") > frequencies.weigh("git") > frequencies.weigh("code") > 0
    assert frequencies.weigh("the") == pytest.approx(STOP_WORD_WEIGHT * frequencies.weigh("git"))
    assert not any(map(frequencies.weigh, (".", "-", "?", UNKNOWN_PIECE)))


@needs_numpy
def test_stop_word_counts_less_than_another_word() -> None:
    weight = STOP_WORD_WEIGHT / (1.0 + STOP_WORD_WEIGHT)
    assert compare("mail with", ["letter"], ["other"])[0] == expected(0.8 * (1 - weight))


@needs_numpy
@pytest.mark.parametrize("query", ["", "  ", "?! ...", "[UNK]", "- [UNK] -"])
def test_query_without_compared_pieces_is_similar_to_none(query: str) -> None:
    assert compare(query, ["mail ?!"], ["other"]) == [UNRELATED_SIMILARITY] * 2


@needs_numpy
def test_punctuation_of_a_query_changes_nothing() -> None:
    assert compare("mail?!", ["letter?!"], ["other"]) == compare("mail", ["letter"], ["other"])


@needs_numpy
def test_pieces_are_kept_as_bytes_without_punctuation() -> None:
    pieces = PieceSimilarity(KnownPieces())
    pieces.embed(["read, write."])
    [rows] = pieces._rows.values()
    assert rows.dtype == "int8"
    assert rows.nbytes == 2 * KnownPieces.dimensions


@needs_numpy
def test_cached_pieces_are_bounded_by_the_number_of_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(piece_similarity, "MAX_CACHED_PIECES", 10)
    pieces = PieceSimilarity(KnownPieces())
    pieces.embed(["one two three", "four five six", "mail write"])
    assert pieces._rows.currsize == 7, "two texts and their five pieces"
    assert pieces.list_missing(["mail write", "one two three"]) == ["one two three"]
    pieces.embed(["!", "?", ".", "-", ":", ";", ",", "'", "(", ")"])
    assert pieces._rows.currsize == len(pieces._rows) == 10, "a text without pieces counts, too"


@needs_numpy
def test_cached_queries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_similarity, "MAX_CACHED_QUERIES", 2)
    model = KnownPieces()
    pieces = PieceSimilarity(model)
    for query in ("mail", "mail", "letter", "read", "mail"):
        pieces.embed_query(query)
    assert model.runs == ["mail", "letter", "read", "mail"]


SPACES = (
    IndexedNamespace("post", "Post", "", (), ("mail: Dispatch", "stamp: Buy one")),
    IndexedNamespace("books", "Books", "", (), ("read: Open one",)),
    IndexedNamespace("music", "Music", "", (), ("play: Start",)),
)
TEXTS = ["Post. ", "mail: Dispatch", "stamp: Buy one", "Books. ", "read: Open one"]
TEXTS += ["Music. ", "play: Start"]


@needs_numpy
async def test_search_ranks_by_pieces_where_sentences_are_alike() -> None:
    found = await NamespaceSearch(KnownPieces()).find("letter", SPACES)
    assert found[0].id == "post"
    assert found[0].score > found[1].score + 0.1
    assert (await NamespaceSearch(KnownPieces()).find("write", SPACES))[0].id == "books"


@needs_numpy
async def test_search_runs_the_model_once_for_each_text_in_a_thread() -> None:
    model = KnownPieces()
    finder = NamespaceSearch(model)
    await finder.prepare(SPACES)
    assert sorted(model.runs) == sorted(TEXTS)
    model.runs.clear()
    await finder.find("letter", SPACES)
    assert model.runs == ["letter"]
    assert threading.get_ident() not in model.threads


@needs_numpy
async def test_search_of_cached_texts_does_not_wait_for_others_to_be_embedded() -> None:
    finder = NamespaceSearch(KnownPieces())
    await finder.prepare(SPACES)
    async with finder._vectors_lock:
        assert await asyncio.wait_for(finder.find("letter", SPACES), 30)


@needs_numpy
async def test_search_embeds_evicted_texts_again() -> None:
    model = KnownPieces()
    finder = NamespaceSearch(model)
    before = await finder.find("letter", SPACES)
    assert isinstance(finder.embedder, PieceSimilarity)
    finder.embedder._rows.clear()
    model.runs.clear()
    assert await finder.find("letter", SPACES) == before
    assert sorted(model.runs) == sorted(TEXTS)


@needs_numpy
async def test_namespaces_beyond_the_candidates_count_as_the_least_similar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sshwarma.tools.search.MAX_CANDIDATES", 2)
    finder = NamespaceSearch(KnownPieces())
    pieces = finder.embedder
    assert isinstance(pieces, PieceSimilarity)
    post, books, music = await finder._compare_pieces(pieces, "mail write", SPACES, [0, 1, 2])
    assert books > music == post
    post, books, music = await finder._compare_pieces(pieces, "mail", SPACES, [2, 1, 0])
    assert post > books == music


@needs_numpy
async def test_world_with_more_pieces_than_the_cache_is_compared_by_sentences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_sentences = await NamespaceSearch(WholeTexts()).find("letter", SPACES)
    assert await NamespaceSearch(KnownPieces()).find("letter", SPACES) != by_sentences
    monkeypatch.setattr(piece_similarity, "MAX_CACHED_PIECES", 5)
    assert await NamespaceSearch(KnownPieces()).find("letter", SPACES) == by_sentences


@needs_numpy
async def test_model_that_fails_on_pieces_is_replaced_by_words() -> None:
    model = KnownPieces()
    finder = NamespaceSearch(model)
    await finder.prepare(SPACES)
    model.fails = True
    assert await finder.find("stamp", SPACES) == await NamespaceSearch().find("stamp", SPACES)
    assert finder.embedder is None


@pytest.mark.skipif(not MiniLM.is_installed(), reason="the extra is not installed")
def test_sentence_model_gives_a_vector_for_each_piece() -> None:
    model = MiniLM()
    text = "Send an email, quickly."
    [embedded] = model.embed_with_pieces([text])
    assert embedded.pieces == model.split(text) == ["send", "an", "email", ",", "quickly", "."]
    assert embedded.piece_vectors.shape == (6, model.dimensions)
    assert [embedded.vector] == model.embed([text])
    query = model.embed_query_with_pieces(text)
    assert query.vector == model.embed_query(text)
    [empty] = model.embed_with_pieces([""])
    assert (empty.pieces, empty.piece_vectors.shape) == ([], (0, model.dimensions))
    assert len(model.split("word " * 1_000)) == 254


@pytest.mark.skipif(not MiniLM.is_installed(), reason="the extra is not installed")
@pytest.mark.parametrize("part", ["whole", "pieces"])
@pytest.mark.parametrize("side", ["text", "query"])
def test_vectors_are_bent_by_the_matrix_of_their_side(part: str, side: str) -> None:
    numpy = importlib.import_module("numpy")
    model, text = MiniLM(), "Send an email, quickly."
    [plain] = model.embed_unadapted([text])
    bent = model.embed_query_with_pieces(text)
    if side == "text":
        [bent] = model.embed_with_pieces([text])
    rows = numpy.frombuffer(read_table(ADAPTER_FILE), dtype=numpy.int8).reshape(4, 384, 384)
    matrix = rows[2 * (part == "pieces") + (side == "query")] * ADAPTER_STEP
    before, after = (
        numpy.array([one.vector] if part == "whole" else one.piece_vectors) for one in (plain, bent)
    )
    wanted = before + before @ matrix
    cosines = (wanted * after).sum(axis=1) / numpy.linalg.norm(wanted, axis=1)
    assert cosines / numpy.linalg.norm(after, axis=1) == pytest.approx(1.0, abs=1e-5)
    unbent = (before * after).sum(axis=1) / numpy.linalg.norm(before, axis=1)
    assert max(unbent / numpy.linalg.norm(after, axis=1)) < 0.999
