"""Names that are suggested for a mistyped one."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from random import Random

import pytest

from sshwarma.common.near_names import (
    MAX_COMPARED_NAMES,
    MAX_MEASURED_CHARACTERS,
    MAX_MEASURED_NAMES,
    MIN_NAME_SIMILARITY,
    find_near_names,
)
from sshwarma.world.errors import unknown_name_error

ROOMS = ["lobby", "home", "den", "workshop", "Attic"]


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("dne", ["den"]),
        ("DNE", ["den"]),
        ("loby", ["lobby"]),
        ("workshpo", ["workshop"]),
        ("work", ["workshop"]),
        ("atic", ["Attic"]),
        ("nosuch", []),
        ("wo", []),
        ("d", []),
        ("", []),
        ("den", []),
        ("x" * 100_000, []),
    ],
)
def test_near_room_names_are_suggested(typed: str, near: list[str]) -> None:
    assert find_near_names(typed, ROOMS) == near


VERBS = ["help", "inv", "join", "look", "reply", "schema", "search", "state", "token", "who"]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("jion", ["join"]),
        ("hepl", ["help"]),
        ("SEARHC", ["search"]),
        ("lok", ["look"]),
        ("nosuch", []),
        ("take", []),
        ("", []),
    ],
)
def test_near_verb_names_are_suggested(word: str, near: list[str]) -> None:
    assert find_near_names(word, VERBS) == near


def test_transposed_letters_in_a_short_name_match() -> None:
    assert find_near_names("dne", ["den", "lobby", "home"]) == ["den"]
    assert find_near_names("x", []) == []


def test_only_the_first_names_of_a_long_list_are_compared() -> None:
    others = [f"other-{number}" for number in range(MAX_COMPARED_NAMES)]
    assert find_near_names("jion", ["join", *others]) == ["join"]
    assert find_near_names("jion", [*others, "join"]) == []


def test_similarity_is_measured_for_few_names_of_few_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1,000 names with the same 100 letters took a second on the event loop."""
    measured: list[int] = []

    class CountingMatcher(SequenceMatcher[str]):
        def set_seqs(self, a: Sequence[str], b: Sequence[str]) -> None:
            measured.append(max(len(a), len(b)))
            super().set_seqs(a, b)

    monkeypatch.setattr("sshwarma.common.near_names.SequenceMatcher", CountingMatcher)
    random = Random(1)
    names = ["".join(random.sample("ab" * 50, 100)) for _ in range(MAX_COMPARED_NAMES)]
    find_near_names("ba" * 50, names)
    assert 0 < len(measured) <= MAX_MEASURED_NAMES
    assert max(measured) <= MAX_MEASURED_CHARACTERS


def test_long_names_that_differ_in_one_place_are_near() -> None:
    folder = "a" * 30 + "/" + "b" * 30 + "/"
    names = [f"{folder}{number:03}-{word}" for number in range(300) for word in ("north", "south")]
    assert find_near_names(f"{folder}217-soth", names)[0] == f"{folder}217-south"
    assert find_near_names(f"x{folder}217-south", names)[0] == f"{folder}217-south"


@pytest.mark.parametrize("seed", range(5))
def test_near_names_are_those_of_difflib(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        names = ["".join(random.choices("abcd-", k=random.randint(3, 9))) for _ in range(15)]
        name = "".join(random.choices("abcd-", k=6))
        for near in get_close_matches(name, names, n=15, cutoff=MIN_NAME_SIMILARITY):
            assert near == name or near in find_near_names(name, names, limit=15)


def test_unknown_empty_name_is_shown_in_quotes() -> None:
    assert unknown_name_error("room", "").message == 'Unknown room "".'
    assert unknown_name_error("thing", "", where="here").message == 'Unknown thing "" here.'
