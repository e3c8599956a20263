"""Signatures of words: similar words have similar ones."""

from __future__ import annotations

import pytest

from sshwarma.tools.word_vectors import compare_signatures, find_signature


def similarity(one: str, other: str) -> float:
    first, second = find_signature(one), find_signature(other)
    assert first is not None
    assert second is not None
    return compare_signatures(first, second)


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("remove", "delete", "music"),
        ("umbrella", "rain", "invoice"),
        ("money", "payment", "container"),
        ("invoice", "billing", "thermostat"),
    ],
)
def test_related_words_are_nearer_than_unrelated_ones(word: str, near: str, far: str) -> None:
    assert similarity(word, near) > similarity(word, far) + 0.1


def test_forms_of_a_word_share_its_signature() -> None:
    assert find_signature("qqzxk") is None
    assert find_signature("umbrellas") == find_signature("umbrella")
    assert similarity("umbrella", "umbrella") == 1.0
