"""Names that are suggested for a mistyped one."""

from __future__ import annotations

import pytest

from sshwarma.common.near_names import MAX_COMPARED_NAMES, find_near_names
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


def test_unknown_empty_name_is_shown_in_quotes() -> None:
    assert unknown_name_error("room", "").message == 'Unknown room "".'
    assert unknown_name_error("thing", "", where="here").message == 'Unknown thing "" here.'
