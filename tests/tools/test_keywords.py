"""Keywords, names and ids in a query: whole words and phrases, number, rarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.keywords import match_keywords
from sshwarma.tools.stemming import extract_words

GIT = IndexedNamespace("git", "Git Operations", "", ("git", "commit", "test"))
BRANCH = IndexedNamespace("git.branch", "Git Branches", "", ("branch",))
DEPLOY = IndexedNamespace("deploy", "Deploys and Releases", "", ("deploy", "A/B test"))
REQUIREMENT = IndexedNamespace("requirement", "Requirements", "", ("req", "spec"))
TRACE = IndexedNamespace("trace", "Traceability", "", ("coverage matrix",))
SPACES = (GIT, BRANCH, DEPLOY, REQUIREMENT, TRACE)


def explain(query: str, spaces: Sequence[IndexedNamespace] = SPACES) -> dict[str, str]:
    hits = match_keywords(extract_words(query), spaces)
    return {spaces[number].id: hit.reason for number, hit in hits.items()}


@pytest.mark.parametrize("query", ["frequent", "a request", "prereq", "spectacular", "coverage"])
def test_keywords_match_only_whole_words_and_phrases(query: str) -> None:
    assert match_keywords(extract_words(query), SPACES) == {}


def test_longest_and_then_rarest_phrase_is_the_reason() -> None:
    assert explain("start an a/b test") == {"deploy": "keyword A/B test", "git": "keyword test"}
    shared = replace(BRANCH, keywords=("branch", "commit"))
    assert explain("commit to a branch", (GIT, shared)) == {
        "git": "keyword commit",
        "git.branch": "keyword branch",
    }


def test_stop_words_match_keywords_but_not_names() -> None:
    helper = IndexedNamespace("it", "The Help", "Asks.", ("help",))
    assert explain("please help me", [helper]) == {"it": "keyword help"}
    assert explain("it is the one", [helper]) == {}


@given(
    keyword=st.text("abcdefgh", min_size=1, max_size=5),
    before=st.text("mnop", min_size=1, max_size=3),
    after=st.text("mnop", min_size=1, max_size=3),
)
def test_any_keyword_matches_only_as_a_whole_word(keyword: str, before: str, after: str) -> None:
    space = IndexedNamespace("-", "-", "", (keyword,))
    for within in (before + keyword, keyword + after, before + keyword + after):
        assert match_keywords([within], [space]) == {}
    assert match_keywords(extract_words(f"{before}, {keyword.upper()}! {after}"), [space])
