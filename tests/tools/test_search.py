"""Finding a namespace: words first, likeness only where no word hits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.tools import search
from sshwarma.tools.embedding import HashedNgrams
from sshwarma.tools.search import (
    IndexedNamespace,
    NamespaceSearch,
    SearchMatch,
    cosine_similarities,
    match_words,
)
from sshwarma.tools.stemming import extract_words

REQUIREMENT = IndexedNamespace(
    "requirement",
    "Requirement Management",
    "Write down what a product must do.",
    ("requirement", "req", "spec"),
    ("list: List requirements", "create: Write a requirement down"),
)
TRACE = IndexedNamespace(
    "requirement.traceability",
    "Traceability",
    "Follow what was asked for to the code.",
    ("coverage matrix",),
    ("link: Tie a requirement to code", "matrix: The table of all"),
)
GIT = IndexedNamespace(
    "git",
    "Git Operations",
    "Record changes of source code.",
    ("git", "commit", "test"),
    ("status: What has changed", "push: Send commits of code to the remote server"),
)
BRANCH = IndexedNamespace(
    "git.branch", "Git Branches", "Lines of work.", ("branch",), ("merge: Join two",)
)
DEPLOY = IndexedNamespace(
    "deploy", "Deploys and Releases", "Bring a version to production.", ("deploy", "A/B test")
)
SPACES = (REQUIREMENT, TRACE, GIT, BRANCH, DEPLOY)


class Counting(HashedNgrams):
    """Hashed n-grams that keep what they were asked, and by which thread."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        self.threads.add(threading.get_ident())
        return super().embed(texts)


class Broken:
    name = "broken"
    dimensions = 3
    threshold = 0.5

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise ImportError("no torch today")


def ids(found: Sequence[SearchMatch]) -> list[str]:
    return [one.id for one in found]


async def find(query: str, spaces: Sequence[IndexedNamespace] = SPACES) -> list[SearchMatch]:
    return await NamespaceSearch(HashedNgrams()).find(query, spaces)


async def test_keyword_in_a_sentence_ranks_first() -> None:
    found = await find("I want to create a new requirement")
    assert ids(found) == ["requirement"]
    assert found[0].reason == "keyword requirement"


async def test_keyword_match_embeds_nothing() -> None:
    embedder = Counting()
    finder = NamespaceSearch(embedder)
    assert await finder.find("my commits", SPACES)
    assert (finder.embedded_queries, embedder.asked) == (0, [])
    assert await finder.find("ship it to customers", SPACES) is not None
    assert finder.embedded_queries == 1


@pytest.mark.parametrize(
    ("query", "first", "why"),
    [
        ("GIT", "git", "id"),
        ("git operations", "git", "name"),
        ("operations", "git", "name"),
        ("requ", "requirement", "name"),
        ("git.branch", "git.branch", "id"),
        ("Traceability", "requirement.traceability", "name"),
        ("the releases of May", "deploy", "name"),
        ("committed too early", "git", "keyword commit"),
        ("two specs", "requirement", "keyword spec"),
        ("a coverage matrix, please", "requirement.traceability", "keyword coverage matrix"),
    ],
)
async def test_names_ids_and_keywords_match_in_any_case_and_inflection(
    query: str, first: str, why: str
) -> None:
    found = await find(query)
    assert (found[0].id, found[0].reason) == (first, why)


@pytest.mark.parametrize("query", ["frequent", "a request", "prereq", "spectacular", "coverage"])
def test_keywords_match_only_whole_words_and_phrases(query: str) -> None:
    assert match_words(extract_words(query), SPACES) == []


def test_words_of_a_longer_keyword_score_less() -> None:
    found = match_words(extract_words("start an a/b test"), SPACES)
    assert ids(found) == ["deploy", "git"]


def test_more_and_rarer_hits_rank_higher() -> None:
    shared = replace(BRANCH, keywords=("branch", "commit"))
    spaces = (GIT, shared, DEPLOY)
    assert ids(match_words(extract_words("commit to a branch"), spaces))[0] == "git.branch"
    assert ids(match_words(extract_words("commit and test it"), spaces))[0] == "git"


def test_stop_words_match_keywords_but_not_names() -> None:
    helper = IndexedNamespace("it", "The Help", "Asks.", ("help",))
    assert ids(match_words(extract_words("please help me"), [helper])) == ["it"]
    assert match_words(extract_words("it is the one"), [helper]) == []


async def test_similarity_ranks_if_no_keyword_matches() -> None:
    finder = NamespaceSearch(HashedNgrams())
    found = await finder.find("push my code to the server", SPACES)
    assert found[0].id == "git"
    assert found[0].reason == f"similar {found[0].score:.2f}"
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(one.score >= finder.threshold for one in found)


async def test_results_below_the_threshold_are_left_out() -> None:
    query = "push my code to the server"
    best = (await NamespaceSearch(HashedNgrams(), threshold=0.0).find(query, SPACES))[0].score
    assert await NamespaceSearch(HashedNgrams(), threshold=best + 0.01).find(query, SPACES) == []
    found = await NamespaceSearch(HashedNgrams(), threshold=best - 0.01).find(query, SPACES)
    assert ids(found) == ["git"]


@pytest.mark.parametrize("query", ["", "  ", "?!", "\x00\x1b"])
async def test_a_query_without_words_finds_nothing(query: str) -> None:
    assert await find(query) == []


async def test_number_of_results_is_limited() -> None:
    assert (
        len(await NamespaceSearch(HashedNgrams(), 0.0).find("zebra crossing", SPACES, limit=2)) == 2
    )
    assert len(await NamespaceSearch(HashedNgrams()).find("git branch spec", SPACES, limit=2)) == 2
    assert await NamespaceSearch(HashedNgrams()).find("git", SPACES, limit=0) == []
    assert await find("git", ()) == []


async def test_only_changed_descriptions_are_embedded_again() -> None:
    embedder = Counting()
    finder = NamespaceSearch(embedder)
    await finder.prepare(SPACES)
    assert len(embedder.asked) == len(SPACES) + sum(len(space.tools) for space in SPACES)
    embedder.asked.clear()
    changed = replace(TRACE, description="Threads from wishes to proofs.")
    await finder.prepare([changed, *SPACES[2:], REQUIREMENT])
    [only] = embedder.asked
    assert "Threads from wishes" in only
    await finder.find("zebra crossing", [changed])
    assert embedder.asked[1:] == ["zebra crossing"]


async def test_embedding_runs_in_a_thread_once_for_concurrent_searches() -> None:
    embedder = Counting()
    finder = NamespaceSearch(embedder)
    await asyncio.gather(*(finder.find(f"zebra {n}", SPACES) for n in range(4)))
    texts = [text for text in embedder.asked if not text.startswith("zebra")]
    assert len(texts) == len(set(texts)) == len(SPACES) + sum(len(s.tools) for s in SPACES)
    assert threading.get_ident() not in embedder.threads
    assert finder.embedded_queries == 4


async def test_vector_cache_is_bounded_and_search_stays_correct(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MAX_CACHED_VECTORS", 3)
    finder = NamespaceSearch(HashedNgrams())
    await finder.prepare(SPACES)
    assert await finder.find("push my code to the server", SPACES) == await find(
        "push my code to the server"
    )
    assert len(finder._vectors) == 3


async def test_failing_embedder_is_replaced_and_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    finder = NamespaceSearch(Broken())
    assert await finder.find("push my code to the server", SPACES) == await find(
        "push my code to the server"
    )
    assert isinstance(finder.embedder, HashedNgrams)
    assert finder.threshold == HashedNgrams.threshold
    assert "an embedder failed" in capsys.readouterr().out


def test_cosine_similarities_agree_for_sparse_and_dense_vectors() -> None:
    few = [0.0, 0.6, 0.0, 0.0, 0.8, 0.0]
    dense = [0.5, 0.5, 0.5, 0.5, 0.0, 0.0]
    vectors = [few, dense]
    for asked in (few, dense, [0.0] * 6, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]):
        expected = [sum(a * b for a, b in zip(asked, v, strict=True)) for v in vectors]
        assert cosine_similarities(asked, vectors) == pytest.approx(expected)


spaces = st.lists(
    st.builds(
        IndexedNamespace,
        id=st.text(max_size=12),
        name=st.text(max_size=20),
        description=st.text(max_size=40),
        keywords=st.lists(st.text(max_size=12), max_size=3).map(tuple),
        tools=st.lists(st.text(max_size=30), max_size=3).map(tuple),
    ),
    max_size=5,
    unique_by=lambda space: space.id,
)


@given(st.text(max_size=200), spaces, st.integers(-1, 6))
async def test_any_query_gives_an_ordered_result(
    query: str, given: list[IndexedNamespace], limit: int
) -> None:
    finder = NamespaceSearch(HashedNgrams())
    found = await finder.find(query, given, limit)
    assert len(found) <= max(limit, 0)
    assert all(0.0 <= one.score <= 1.0 for one in found)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert set(ids(found)) <= {space.id for space in given}
    assert await finder.find(query, list(reversed(given)), limit) == found


@given(
    keyword=st.text("abcdefgh", min_size=1, max_size=5),
    before=st.text("mnop", min_size=1, max_size=3),
    after=st.text("mnop", min_size=1, max_size=3),
)
def test_any_keyword_matches_only_as_a_whole_word(keyword: str, before: str, after: str) -> None:
    space = IndexedNamespace("-", "-", "", (keyword,))
    for within in (before + keyword, keyword + after, before + keyword + after):
        assert match_words([within], [space]) == []
    assert match_words(extract_words(f"{before}, {keyword.upper()}! {after}"), [space])
