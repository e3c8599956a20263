"""Types of arguments in a few words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.tools.type_names import name_type

POINT = {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x"]}
ROOT: dict[str, Any] = {
    "$defs": {
        "Point": POINT,
        "Colour": {"enum": ["red", "blue"], "type": "string"},
        "Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}},
    },
    "anyOf": [{}, {"properties": {"size": {"type": "integer"}}}],
}


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({}, "any"),
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string"),
        ({"$ref": "#/$defs/Colour"}, "red|blue"),
        ({"$ref": "#/$defs/Point"}, "{x, y?}"),
        ({"$ref": "#/$defs/Gone"}, "Gone"),
        ({"$ref": "#/anyOf/1/properties/size"}, "integer"),
        ({"$ref": "#/anyOf/2"}, "any"),
        ({"$ref": "https://example.org/x"}, "any"),
        ({"type": "array", "items": {"$ref": "#/$defs/Point"}}, "{x, y?}[]"),
        ({"type": "array", "items": {"$ref": "#/$defs/Colour"}}, "(red|blue)[]"),
        ({"type": "array"}, "array"),
        ({"$ref": "#/$defs/Loop"}, "Loop[][]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"oneOf": [{"type": "string"}, {"$ref": "#/$defs/Point"}]}, "string|{x, y?}"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({"type": "object", "additionalProperties": False}, "object"),
        ({"enum": list(range(20))}, "0|1|2|3|4|5|6|7|…"),
        ({"const": "on"}, "on"),
        ({"enum": []}, "any"),
    ],
)
def test_type_is_named_in_a_few_words(schema: dict[str, Any], name: str) -> None:
    assert name_type(schema, ROOT) == name


def test_hostile_schema_is_named_at_once() -> None:
    """Each of its references leads to all of them."""
    same = {"anyOf": [{"$ref": "#/$defs/a"}] * 2_000}
    assert name_type(same, {"$defs": {"a": same}}) == "any"


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(
            ["type", "enum", "const", "anyOf", "items", "properties", "required", "$ref",
             "additionalProperties"]
        ), inner, max_size=4,
    ),
    max_leaves=12,
))  # fmt: skip
def test_any_schema_has_a_name(schema: Any) -> None:
    assert name_type(schema, schema if isinstance(schema, dict) else {})
