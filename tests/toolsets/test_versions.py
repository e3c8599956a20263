"""Versions of toolsets: which is later, and where nobody can say."""

from __future__ import annotations

import pytest

from sshwarma.toolsets.versions import compare_versions


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        ("1.0", "2.0", 1),
        ("2.0", "1.5", -1),
        ("1.9", "1.10", 1),
        ("1.0", "1.0.1", 1),
        ("1.0", "1.0.0", 0),
        ("v1", "1", 0),
        ("1.0-rc1", "2.0", 1),
        ("2.0", "1.9+build.7", -1),
        ("1.0-rc1", "1.0", None),
        ("1.0a", "1.0b", None),
        ("summer", "2.0", None),
        ("summer", "summer", 0),
        ("?", "1.0", None),
    ],
)
def test_versions_are_compared_by_their_numbers(before: str, after: str, order: int | None) -> None:
    assert compare_versions(before, after) == order
    opposite = order if order is None else -order
    assert compare_versions(after, before) == opposite
