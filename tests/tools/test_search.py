"""Finding a namespace by words, keywords, similar words and a sentence model."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import DEFAULT_FIND_THRESHOLD
from sshwarma.settings import ReloadableSettings, SearchSettings
from sshwarma.tools import search
from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.search import NamespaceSearch, SearchMatch, cosine_similarities

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


class Counting:
    """A sentence model of letters that keeps what it was asked, and by which thread."""

    name = "letters"
    dimensions = 26

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        self.threads.add(threading.get_ident())
        counts = [[float(text.lower().count(chr(97 + n))) for n in range(26)] for text in texts]
        return [[value / (math.hypot(*row) or 1.0) for value in row] for row in counts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed([text])[0]


class Broken:
    name = "broken"
    dimensions = 3

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise ImportError("no torch today")

    def embed_query(self, text: str) -> list[float]:
        return self.embed([text])[0]


def ids(found: Sequence[SearchMatch]) -> list[str]:
    return [one.id for one in found]


def search_from(threshold: float) -> NamespaceSearch:
    """A search with that minimum score."""
    section = SearchSettings(threshold=threshold)
    return NamespaceSearch(settings=ReloadableSettings(search=section))


async def find(query: str, spaces: Sequence[IndexedNamespace] = SPACES) -> list[SearchMatch]:
    return await NamespaceSearch().find(query, spaces)


async def test_keyword_in_a_sentence_ranks_first() -> None:
    found = await find("I want to create a new requirement")
    assert ids(found)[0] == "requirement"
    assert found[0].reason == "keyword requirement"


async def test_query_that_is_a_name_embeds_nothing() -> None:
    embedder = Counting()
    finder = NamespaceSearch(embedder)
    assert await finder.find("git operations", SPACES)
    assert (finder.embedded_queries, embedder.asked) == (0, [])
    assert await finder.find("my commits", SPACES)
    assert finder.embedded_queries == 1, "keywords and similarity are fused"


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


async def test_similarity_ranks_if_no_keyword_matches() -> None:
    finder = NamespaceSearch()
    found = await finder.find("push my code to the server", SPACES)
    assert found[0].id == "git"
    assert found[0].reason == f"similar {found[0].score:.2f}"
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(one.score >= finder.threshold for one in found)


async def test_results_below_the_threshold_are_left_out() -> None:
    query = "push my code to the server"
    best = (await search_from(0.0).find(query, SPACES))[0].score
    assert await search_from(best + 0.01).find(query, SPACES) == []
    found = await search_from(best - 0.01).find(query, SPACES)
    assert ids(found)[0] == "git"


@pytest.mark.parametrize("query", ["", "  ", "?!", "\x00\x1b"])
async def test_a_query_without_words_finds_nothing(query: str) -> None:
    assert await find(query) == []


async def test_number_of_results_is_limited() -> None:
    assert len(await search_from(0.0).find("zebra crossing", SPACES, limit=2)) == 2
    assert len(await NamespaceSearch().find("git branch spec", SPACES, limit=2)) == 2
    assert await NamespaceSearch().find("git", SPACES, limit=0) == []
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
    finder = NamespaceSearch(Counting())
    await finder.prepare(SPACES)
    query = "push my code to the server"
    found = await finder.find(query, SPACES)
    monkeypatch.undo()
    assert found == await NamespaceSearch(Counting()).find(query, SPACES)
    assert len(finder._vectors) == 3


async def test_failing_embedder_is_replaced_and_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    finder = NamespaceSearch(Broken())
    assert await finder.find("push my code to the server", SPACES) == await find(
        "push my code to the server"
    )
    assert finder.embedder is None
    assert finder.threshold == DEFAULT_FIND_THRESHOLD
    assert "the sentence model failed" in capsys.readouterr().out


def test_cosine_similarities_are_products_of_unit_vectors() -> None:
    assert cosine_similarities([0.6, 0.8], [[1.0, 0.0], [0.8, 0.6]]) == pytest.approx([0.6, 0.96])


async def test_unrelated_keyword_neither_hides_nor_beats_the_namespace_of_the_task() -> None:
    images = IndexedNamespace("images", "Image Editing", "Pictures.", ("image",), ("crop: Crop",))
    docker = IndexedNamespace(
        "docker", "docker", "", (), ("build_image: Build an image from a Dockerfile",)
    )
    found = await find("build an image from my Dockerfile", (images, docker, *SPACES))
    assert ids(found)[0] == "docker"
    assert "images" in ids(found)
    finder = NamespaceSearch(Counting())
    await finder.find("build an image from my Dockerfile", (images, docker))
    assert finder.embedded_queries == 1, "a keyword among other words decides nothing"


async def test_word_that_a_namespace_lacks_counts_by_a_similar_one() -> None:
    mail = IndexedNamespace("mail", "mail", "", (), ("send_email: Send an email",))
    sky = IndexedNamespace("sky", "sky", "", (), ("forecast: Rain and wind of the next days",))
    assert ids(await find("a letter for her", (mail, sky, *SPACES)))[0] == "mail"
    assert ids(await find("do I take my umbrella", (mail, sky, *SPACES)))[0] == "sky"


async def test_misspelled_word_finds_the_one_meant() -> None:
    assert ids(await find("write reqirements down"))[0] == "requirement"


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
    finder = NamespaceSearch()
    found = await finder.find(query, given, limit)
    assert len(found) <= max(limit, 0)
    assert all(0.0 <= one.score <= 1.0 for one in found)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert set(ids(found)) <= {space.id for space in given}
    assert await finder.find(query, list(reversed(given)), limit) == found


async def test_tools_that_are_on_already_stand_behind_others() -> None:
    """The program's own namespaces have some word for most queries."""
    own = replace(DEPLOY, id="sshwarma", name="Rooms", keywords=())
    other = replace(DEPLOY, id="zebra", name="Rooms", keywords=())
    finder = NamespaceSearch()
    query = "bring this version to production"
    assert ids(await finder.find(query, (own, other, GIT)))[:2] == ["zebra", "sshwarma"]
    (first, *_) = await finder.find(query, (own, GIT))
    assert first.id == "sshwarma"
