"""How often the right namespace is found, on queries that no weight was chosen with.

The rates are percent of queries with the right namespace first, and among the first three. A change
that lowers one below its bound makes finding worse; docs/decisions has the exact figures.
"""

from __future__ import annotations

import pytest
from benchmarks.finding_sets import Group, find_with, load_groups, plain_bm25, rate

from sshwarma.tools.embedding import MiniLM
from sshwarma.tools.search import NamespaceSearch

ALL, NO_KEYWORD, BARE = load_groups("held_out")


@pytest.mark.parametrize(
    ("group", "first", "three"),
    [(ALL, 73, 92), (NO_KEYWORD, 52, 85), (BARE, 70, 90)],
    ids=lambda value: value.name if isinstance(value, Group) else None,
)
async def test_words_and_similar_words_find_as_often_as_measured(
    group: Group, first: float, three: float
) -> None:
    found = await rate(find_with(NamespaceSearch()), group)
    assert found[0] >= first
    assert found[1] >= three
    plain = await rate(plain_bm25(group.spaces), group)
    assert found[1] >= plain[1] + 5, "it beats plain BM25 among the first three"


@pytest.mark.skipif(not MiniLM.is_installed(), reason="the extra is not installed")
@pytest.mark.parametrize(
    ("group", "first", "three"),
    [(ALL, 76, 93), (NO_KEYWORD, 60, 90), (BARE, 72, 92)],
    ids=lambda value: value.name if isinstance(value, Group) else None,
)
async def test_sentence_model_finds_as_often_as_measured(
    group: Group, first: float, three: float
) -> None:
    # Processors round 8-bit products differently: bounds leave three queries of room.
    found = await rate(find_with(NamespaceSearch(MiniLM())), group)
    assert found[0] >= first
    assert found[1] >= three
