"""Words, their forms, and vectors of texts."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.tools.embedding import (
    MAX_TEXT_CHARACTERS,
    MINILM_PACKAGE,
    HashedNgrams,
    MiniLM,
    choose_embedder,
)
from sshwarma.tools.stemming import extract_words, inflections, stem

EMBEDDER = HashedNgrams()


def alike(one: str, other: str) -> float:
    first, second = EMBEDDER.embed([one, other])
    return sum(a * b for a, b in zip(first, second, strict=True))


@given(st.lists(st.text(max_size=300), max_size=4))
def test_vectors_are_normalized_or_zero(texts: list[str]) -> None:
    vectors = EMBEDDER.embed(texts)
    assert len(vectors) == len(texts)
    for vector in vectors:
        assert len(vector) == EMBEDDER.dimensions
        length = math.sqrt(sum(value * value for value in vector))
        assert length == pytest.approx(1.0) or not any(vector)


@given(st.text(max_size=300))
def test_the_same_text_gives_the_same_vector(text: str) -> None:
    assert EMBEDDER.embed([text]) == HashedNgrams().embed(["other", text])[1:]


def test_vector_is_the_same_in_every_process_and_release() -> None:
    [vector] = EMBEDDER.embed(["zebra"])
    placed = [place for place, value in enumerate(vector) if value]
    assert placed == [18, 57, 68, 122, 167, 187, 248, 266, 784, 834]


def test_text_beyond_the_limit_is_ignored() -> None:
    text = "word " * (MAX_TEXT_CHARACTERS // 5)
    assert EMBEDDER.embed([text]) == EMBEDDER.embed([text + "more"])


@pytest.mark.parametrize(
    ("one", "near", "far"),
    [
        ("deploy the service", "a deployment of services", "translate the letter"),
        ("remove a file", "delete files", "play some music"),
        ("reqirement", "requirement", "weather"),
        ("Écrire un rapport", "écrire des rapports", "lire un journal"),
    ],
)
def test_related_words_are_nearer_than_unrelated_ones(one: str, near: str, far: str) -> None:
    assert alike(one, near) > alike(one, far) + 0.05


def test_unrelated_texts_are_below_the_threshold() -> None:
    assert alike("walking my dog in Cardiff", "rotate an api key") < EMBEDDER.threshold


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


class _Vectors(list[list[float]]):
    def tolist(self) -> list[list[float]]:
        return list(self)


def test_neural_model_is_used_if_installed_and_loaded_at_the_first_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []

    class Model:
        def encode(self, texts: list[str], **options: Any) -> _Vectors:
            assert options == {"normalize_embeddings": True, "show_progress_bar": False}
            return _Vectors([1.0] + [0.0] * 383 for _ in texts)

    package = ModuleType(MINILM_PACKAGE)
    package.__spec__ = importlib.machinery.ModuleSpec(MINILM_PACKAGE, None)
    package.load_model = lambda device: loaded.append(device) or Model()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MINILM_PACKAGE, package)
    chosen = choose_embedder()
    assert isinstance(chosen, MiniLM)
    assert chosen.embed([]) == []
    assert not loaded
    vectors = chosen.embed(["one", "two"])
    assert [len(vector) for vector in vectors] == [chosen.dimensions] * 2
    chosen.embed(["three"])
    assert loaded == ["cpu"]


def test_hashed_ngrams_are_used_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert isinstance(choose_embedder(), HashedNgrams)
