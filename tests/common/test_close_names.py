"""Which names are suggested for a mistyped one."""

from __future__ import annotations

import pytest

from sshwarma.common.close_names import find_close_names

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
def test_only_close_names_are_suggested(word: str, near: list[str]) -> None:
    assert find_close_names(word, VERBS) == near


def test_two_letters_that_are_swapped_in_a_short_name_are_close() -> None:
    assert find_close_names("dne", ["den", "lobby", "home"]) == ["den"]
    assert find_close_names("x", []) == []
