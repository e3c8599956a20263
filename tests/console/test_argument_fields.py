"""The fields of a tool's form, and the arguments that they give."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.web.console.argument_fields import (
    fill_fields,
    make_argument_fields,
    put_texts,
    read_tool_form,
)
from sshwarma.web.console.form_body import FormBody
from sshwarma.web.console.forms import JSON_FIELD
from sshwarma.world.errors import Invalid

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["path", "on"],
    "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "path": {"type": "string", "description": "Where it is."},
        "on": {"type": "boolean"},
        "size": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "mode": {"$ref": "#/$defs/Mode"},
        "level": {"enum": [1, 2, 3, 4, 5]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "where": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        'odd name "<': {"type": "string"},
        "broken": 7,
    },
    "$defs": {"Mode": {"enum": ["new", "old"], "type": "string"}},
}

GIVEN: dict[str, Any] = {
    "path": "a\nb", "on": False, "count": 2, "size": 1.5, "mode": "old", "level": 4,
    "tags": ["x y", "z"], "sizes": [1, 2], "where": {"x": 1}, "either": 5, 'odd name "<': "o",
    "broken": [None],
}  # fmt: skip


def form(**texts: str) -> FormBody:
    return FormBody({f"arg.{name}": [text] for name, text in texts.items()})


def test_fields_follow_from_the_schema() -> None:
    fields = {one.name: one for one in make_argument_fields(SCHEMA)}
    assert list(fields)[:2] == ["path", "on"]
    widgets = {name: one.field.widget for name, one in fields.items()}
    assert widgets == {
        "path": "text", "on": "radio", "count": "number", "size": "number", "mode": "radio",
        "level": "select", "tags": "list", "sizes": "list", "where": "text", "either": "text",
        'odd name "<': "text", "broken": "text",
    }  # fmt: skip
    assert (fields["count"].field.low, fields["count"].field.high) == ("1", "9")
    assert "If it is left out: 3" in fields["count"].field.help
    assert "As JSON: {x?}" in fields["where"].field.help
    assert " " not in fields['odd name "<'].field.name


def test_filled_form_gives_the_same_arguments_again() -> None:
    fields, written = fill_fields(make_argument_fields(SCHEMA), GIVEN)
    assert written == ""
    sent = FormBody({one.field.name: [one.field.value] for one in fields})
    assert read_tool_form(fields, sent) == GIVEN


def test_empty_optional_fields_are_left_out() -> None:
    fields = make_argument_fields(SCHEMA)
    empty = FormBody({one.field.name: [""] for one in fields})
    assert read_tool_form(fields, empty) == {"path": ""}
    given = read_tool_form(fields, form(path="p", on="true", count="many", sizes="1\r\n\r\nx"))
    assert given == {"path": "p", "on": True, "count": "many", "sizes": [1, "x"]}


@pytest.mark.parametrize(
    "given", [{"unknown": 1}, {"path": 7}, {"tags": ["a\nb"]}, {"mode": "other"}, {"tags": []}]
)
def test_arguments_without_a_field_are_filled_in_as_json(given: dict[str, Any]) -> None:
    fields, written = fill_fields(make_argument_fields(SCHEMA), given)
    assert read_tool_form(fields, FormBody({JSON_FIELD: [written]})) == given


def test_malformed_json_names_its_field() -> None:
    fields = make_argument_fields(SCHEMA)
    with pytest.raises(Invalid, match="where is not JSON"):
        read_tool_form(fields, form(path="p", where="{x"))
    with pytest.raises(Invalid, match="must be an object"):
        read_tool_form(fields, FormBody({JSON_FIELD: ["[1]"]}))
    assert put_texts(fields, {"arg.where": "{x"})[-1].field.value == ""


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"anyOf": 3, "enum": {}}}},
        {"properties": {"a": {"enum": [True, 1, "1"], "type": ["x", 4]}}, "required": [3]},
        {"properties": {"a": {"enum": ["x"] * 3, "description": 3, "default": "\x1b"}}},
    ],
)
def test_any_schema_makes_a_form(schema: dict[str, Any]) -> None:
    fields = make_argument_fields(schema)
    assert read_tool_form(fields, FormBody()) in ({}, {"a": ""})
    fill_fields(fields, {"a": 1})
