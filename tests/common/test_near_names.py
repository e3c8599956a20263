"""Names that are suggested for a mistyped one."""

from __future__ import annotations

import pytest

from sshwarma.common.near_names import find_near_names

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
def test_only_a_near_name_is_suggested(typed: str, near: list[str]) -> None:
    assert find_near_names(typed, ROOMS) == near
