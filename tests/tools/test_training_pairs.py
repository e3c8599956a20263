"""The sentences from which search learns: each has its tool."""

from __future__ import annotations

from benchmarks.training_pairs import read_namespaces, read_own

SPACES = read_namespaces()


def test_sentence_of_a_namespace_means_one_of_its_tools() -> None:
    assert len(SPACES) > 800
    for space in SPACES:
        assert all(": " in tool and "_" not in tool for tool in space.tools), space.name
        assert all(0 <= tool < len(space.tools) for _, tool in space.sentences), space.name


def test_sentence_is_paired_with_its_tool_and_its_namespace() -> None:
    texts = dict.fromkeys(text for query, text in read_own()["Recipes"] if "cabbage" in query)
    assert list(texts) == [
        "search: Find dishes by ingredients or cuisine",
        "Recipes. Dishes to cook: ingredients, steps, portions and what to do with leftovers.",
    ]
