"""Sentences from which search learns: each has its tool, none is a query."""

from __future__ import annotations

from benchmarks.finding_sets import load, load_everyday, load_servers, wishes
from benchmarks.training_pairs import read_namespaces, read_own

SPACES = read_namespaces()
QUERIES = ("tune", "tune_more", "held_out", "held_out_2", "held_out_servers")


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


def test_no_namespace_or_sentence_of_training_is_one_of_the_benchmark() -> None:
    servers, asked = load_servers()
    groups = load_everyday()
    queries = [*asked, *(pair for name in QUERIES for pair in wishes(name))]
    queries += [pair for group in groups for pair in group.asked]
    sentences = {query.lower() for space in SPACES for query, _ in space.sentences}
    assert not sentences & {query.lower() for _, query in queries}
    names = [space.name.lower() for space in SPACES]
    assert len(set(names)) == len(names)
    assert not set(names) & {space.name.lower() for space in (*load()[0], *servers)}
