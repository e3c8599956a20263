"""Words of a text, their forms and stems."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.tools.stemming import extract_words, inflections, stem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Don't PUSH my_file.py", ["dont", "push", "my", "file", "py"]),
        ("C++ and C#, ci-configured", ["c++", "and", "c#", "ci", "configured"]),
        ("ﬁle ＧＩＴ", ["file", "git"]),
        ("要件を作成", ["要", "件", "を", "作", "成"]),
        (" \x1b[31m\x00 ", ["31m"]),
        ("", []),
    ],
)
def test_extract_words_splits_a_text(text: str, said: list[str]) -> None:
    assert extract_words(text) == said


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("plan", {"plan", "plans", "planned", "planning"}),
        ("merge", {"merge", "merges", "merged", "merging"}),
        ("story", {"story", "stories", "storied", "storying"}),
        ("branch", {"branch", "branches", "branched", "branching"}),
        ("pr", {"pr", "prs"}),
        ("it", {"it"}),
        ("4k", {"4k"}),
    ],
)
def test_inflections_lists_the_forms_of_a_word(word: str, forms: set[str]) -> None:
    assert inflections(word) == forms


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("req", "frequent"),
        ("req", "request"),
        ("plan", "plane"),
        ("plan", "planet"),
        ("str", "string"),
        ("new", "news"),
        ("ci", "cis"),
        ("see", "seed"),
    ],
)
def test_words_with_a_common_prefix_are_not_inflections(word: str, other: str) -> None:
    assert other not in inflections(word)
    assert word not in inflections(other)


def test_word_family_has_one_stem() -> None:
    family = ["deploy", "deploys", "deployed", "deploying", "deployment", "deployments"]
    assert {stem(word) for word in family} == {"deploi"}


@given(st.text(max_size=80))
def test_every_word_has_inflections_and_a_stem(text: str) -> None:
    for word in extract_words(text):
        assert word in inflections(word)
        assert stem(word)
