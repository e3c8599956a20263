"""Every schema for models or MCP clients survives canonical JSON (RFC 8785)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_EXACT_INTEGER
from sshwarma.mcp.server.tool_list import make_verb_tool
from sshwarma.tools.compact_schema import make_short_schema
from sshwarma.tools.exact_schema import make_exact_schema
from sshwarma.verbs.registry import every_verb

numbers = st.integers() | st.floats() | st.just(2**53) | st.just(-(2**63)) | st.just(1e20)
texts = st.text(st.characters(exclude_categories=()), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(texts, values, max_size=5))
def test_any_schema_survives_canonical_json(schema: dict[str, Any]) -> None:
    sent = json.loads(json.dumps(make_exact_schema(schema)))
    rfc8785.dumps(sent)


def test_exact_schema_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"n": {"maximum": MAX_EXACT_INTEGER, "minimum": 0.5}}}
    assert make_exact_schema(schema) == schema


def test_values_beyond_the_exact_integers_are_left_out() -> None:
    schema = {
        "properties": {"n": {"type": "integer", "minimum": -(2**63), "maximum": 2**53}},
        "enum": [1, 2**60],
    }
    assert make_exact_schema(schema) == {"properties": {"n": {"type": "integer"}}, "enum": [1]}


VERBS = [verb for verb in every_verb() if verb.tool_spec is not None]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_survives_at_the_doors_of_models_and_mcp(verb: Any) -> None:
    rfc8785.dumps(verb.input_schema)  # before it is made exact
    rfc8785.dumps(make_short_schema(verb.input_schema))
    tool = make_verb_tool(verb, "sshwarma.tool")
    rfc8785.dumps(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
