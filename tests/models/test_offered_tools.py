"""Tools as models are offered them: short, true, callable with all arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest
import rfc8785

from sshwarma.models.backend import OfferedTool
from sshwarma.models.offered_tools import offer_tools, write_offers
from sshwarma.tools.compact_schema import make_compact_schema, make_model_schema, make_short_schema
from sshwarma.verbs.registry import every_verb, tool_specs
from sshwarma.world.bootstrap import BuiltinToolSpec
from sshwarma.wrap.profiles import ContextProfile
from sshwarma.wrap.tokens import estimate_tokens
from support.house import House

MAX_DEFAULT_TOKENS = 2_250
"""Estimated tokens of the tools of a new room, all rights included; a quarter is for memory."""


def make_item(spec: BuiltinToolSpec) -> Any:
    thing: Any = SimpleNamespace(
        label=f"{spec.namespace}:{spec.name}", description=spec.description, metadata=spec.metadata
    )
    return SimpleNamespace(thing=thing)


def offered(spec: BuiltinToolSpec) -> OfferedTool:
    return offer_tools([make_item(spec)])[0]


def test_tools_of_a_new_room_cost_few_tokens() -> None:
    specs = [spec for spec in tool_specs() if spec.default or spec.namespace == "global"]
    offers = offer_tools(map(make_item, specs))
    assert len(offers) == 25
    assert estimate_tokens(write_offers(offers)) <= MAX_DEFAULT_TOKENS


def test_tool_that_another_one_covers_is_offered_without_it_alone() -> None:
    specs = {spec.name: spec for spec in tool_specs()}
    both = [make_item(specs[name]) for name in ("note", "decide", "who")]
    assert [offer.name for offer in offer_tools(both)] == ["sshwarma__note", "sshwarma__who"]
    assert [offer.name for offer in offer_tools(both[1:])] == ["sshwarma__decide", "sshwarma__who"]
    assert len(offer_tools(both, ContextProfile(has_covered_tools=True))) == 3


async def test_covered_tool_may_be_called(house: House) -> None:
    outcome = await house.tools.call(
        house.caller("qwen"), "sshwarma__note", {"text": "ship it", "kind": "decision"}
    )
    assert outcome.ending == "result", outcome.text
    outcome = await house.tools.call(house.caller("qwen"), "sshwarma__decide", {"text": "again"})
    assert outcome.ending == "result", outcome.text
    shown = await house.tools.call(house.caller("qwen"), "sshwarma__journal", {"kind": "decision"})
    assert "ship it" in shown.text and "again" in shown.text


@pytest.mark.parametrize("spec", tool_specs(), ids=lambda spec: spec.id)
def test_offer_keeps_what_a_call_needs(spec: BuiltinToolSpec) -> None:
    """Each offered parameter has its type; required ones are never left out."""
    schema, whole = offered(spec).input_schema, spec.input_schema
    assert set(schema["properties"]) == set(whole["properties"]) - set(spec.rarely_used)
    assert set(schema.get("required", ())) == set(whole.get("required", ()))
    assert set(schema.get("required", ())) <= set(schema["properties"])
    for part in schema["properties"].values():
        assert {"type", "anyOf", "enum"} & set(part), part
        assert {"type": "null"} not in part.get("anyOf", ())
    if not spec.model_arguments is not None:
        assert all(part.get("description") for part in schema["properties"].values())


def test_text_for_models_is_what_models_read() -> None:
    verbs = {verb.tool: verb for verb in every_verb() if verb.docstring.for_models}
    assert {"look", "history", "load_room"} <= set(verbs)
    for spec in tool_specs():
        if spec.name in verbs:
            assert offered(spec).description == verbs[spec.name].docstring.for_models


async def test_argument_that_the_offer_leaves_out_is_accepted(house: House) -> None:
    """Also null for an optional one, which the offered schema does not mention."""
    await house.says("alice", "one")
    outcome = await house.tools.call(
        house.caller("qwen"), "sshwarma__history", {"at": 1, "before": None}
    )
    assert outcome.ending == "result", outcome.text
    assert "one" in outcome.text


def test_schemas_of_others_keep_their_meaning() -> None:
    theirs = {
        "type": "object",
        "title": "Order",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 50, "default": 3, "title": "N"},
            "who": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "title": {"type": "string", "description": "a title"},
            "any": True,
        },
        "required": ["who"],
        "additionalProperties": False,
    }
    properties = make_compact_schema(theirs)["properties"]
    assert properties["n"] == {"type": "integer", "maximum": 50, "default": 3}
    assert properties["who"]["anyOf"][1] == {"type": "null"}  # it must be given
    assert properties["title"] == {"type": "string", "description": "a title"}
    assert make_model_schema(theirs)["required"] == ["who"]
    assert make_model_schema({}) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "short"),
    [
        (
            {
                "type": "object",
                "properties": {
                    "n": {
                        "anyOf": [{"type": "integer", "maximum": 9}, {"type": "null"}],
                        "default": None,
                        "description": "Number.",
                    },
                    "kind": {"enum": ["a", "b"], "description": "Kind.", "title": "Kind"},
                    "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}},
                },
                "required": ["kind"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "kind": {"enum": ["a", "b"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["kind"],
            },
        ),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, {"$ref": "#/$defs/a", "$defs": {"a": {}}}),
        ({"type": "object"}, {"type": "object"}),
    ],
)
def test_short_schema_keeps_names_kinds_and_choices(
    schema: dict[str, Any], short: dict[str, Any]
) -> None:
    assert make_short_schema(schema) == short


@pytest.mark.parametrize("choice", ["all", "few"])
def test_offered_schema_survives_canonical_json(choice: Literal["all", "few"]) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": -(2**63), "enum": [1, 2**60]}},
        "$defs": {"big": {"const": 2**60}},
    }
    thing: Any = SimpleNamespace(
        id="1", label="games:dice", description="Roll.", metadata={"input_schema": schema}
    )
    item: Any = SimpleNamespace(thing=thing)
    (offer,) = offer_tools([item], ContextProfile("small", choice))
    rfc8785.dumps(offer.input_schema)
