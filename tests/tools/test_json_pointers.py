"""References of a schema to a part of itself."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.tools.json_pointers import find_part

SCHEMA: dict[str, Any] = {
    "$defs": {"a/b": {"type": "null"}, "m~n": True},
    "anyOf": [{"type": "string"}, {"items": {"type": "number"}}],
    "0": {"const": 1},
}


@pytest.mark.parametrize(
    ("reference", "part"),
    [
        ("#", SCHEMA),
        ("#/$defs/a~1b", {"type": "null"}),
        ("#/$defs/m~0n", True),
        ("#/anyOf/0", {"type": "string"}),
        ("#/anyOf/1/items", {"type": "number"}),
        ("#/0", {"const": 1}),
        ("#/anyOf/2", None),
        ("#/anyOf/00", None),
        ("#/anyOf/-1", None),
        ("#/anyOf/" + "9" * 5_000, None),
        ("#/$defs/a/b", None),
        ("#/anyOf/0/type/x", None),
        ("#anchor", None),
        ("other.json#/0", None),
        (7, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_reference_leads_to_a_part_or_nowhere(reference: Any, part: Any) -> None:
    assert find_part(SCHEMA, reference) == part
