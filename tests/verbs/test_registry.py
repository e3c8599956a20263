"""What is read off a verb's declaration."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from sshwarma import verbs
from sshwarma.verbs.grammar import parse_arguments, split_verb
from sshwarma.verbs.registry import (
    GROUPS,
    Verb,
    every_verb,
    find_verb,
    tool_specs,
    verb,
    verb_names,
)
from sshwarma.verbs.views import has_view

_ = verbs.__all__
EVERY = list(every_verb())

TYPES = {"string", "integer", "number", "boolean", "null", "array", "object"}


def check_schema(schema: dict[str, Any]) -> None:
    """A JSON Schema as far as ours go: known words, used as the specification says."""
    for key, value in schema.items():
        match key:
            case "type":
                assert value in TYPES
            case "enum":
                assert isinstance(value, list) and len(set(value)) == len(value) > 0
            case "anyOf":
                assert value
                for option in value:
                    check_schema(option)
            case "items":
                check_schema(value)
            case "minimum" | "maximum" | "maxItems" | "exclusiveMinimum":
                assert isinstance(value, int | float)
            case "default" | "description":
                pass
            case _:
                raise AssertionError(f"a word that was not expected: {key}")
    assert "type" in schema or "anyOf" in schema


@pytest.mark.parametrize("declared", EVERY, ids=lambda declared: declared.name)
class TestEveryVerb:
    def test_has_help(self, declared: Verb) -> None:
        assert declared.summary and not declared.summary.endswith(".")
        assert len(declared.summary) < 75
        for parameter in declared.parameters:
            assert parameter.help, f"{parameter.name} is not described"
            assert parameter.help.endswith("."), parameter.help
        assert declared.group in GROUPS

    def test_has_examples_that_are_understood(self, declared: Verb) -> None:
        assert declared.examples
        for example in declared.examples:
            found, start = split_verb(example)
            assert found is declared
            parse_arguments(declared, example, start)

    def test_has_a_view_of_its_result(self, declared: Verb) -> None:
        options = get_args(declared.result_type) or (declared.result_type,)
        for option in options:
            assert has_view(option), option

    def test_its_result_can_be_json(self, declared: Verb) -> None:
        assert declared.result_adapter.json_schema(mode="serialization")

    def test_its_input_schema_is_one(self, declared: Verb) -> None:
        schema = declared.input_schema
        assert set(schema) <= {"type", "properties", "required", "additionalProperties"}
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["properties"]) == {p.name for p in declared.parameters}
        assert set(schema.get("required", ())) == {
            p.name for p in declared.parameters if p.required
        }
        for parameter in declared.parameters:
            described = schema["properties"][parameter.name]
            assert described["description"] == parameter.help
            check_schema(described)

    def test_takes_no_argument_it_has_not(self, declared: Verb) -> None:
        with pytest.raises(ValidationError) as caught:
            declared.model.model_validate({"no-such-argument": 1})
        assert any(error["type"] == "extra_forbidden" for error in caught.value.errors())

    def test_required_arguments_come_before_optional_ones(self, declared: Verb) -> None:
        required = [parameter.required for parameter in declared.positional]
        assert required == sorted(required, reverse=True)

    def test_only_the_last_argument_takes_the_rest(self, declared: Verb) -> None:
        assert not any(parameter.arg.rest for parameter in declared.positional[:-1])


def test_names_and_aliases_are_unique() -> None:
    names = [name for known in EVERY for name in (known.name, *known.aliases)]
    assert sorted(names) == verb_names()
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z?]+", name) for name in names)


def test_tools_have_unique_canonical_names() -> None:
    specs = tool_specs()
    assert len({spec.id for spec in specs}) == len(specs)
    assert len({(spec.namespace, spec.name) for spec in specs}) == len(specs)
    assert {spec.namespace for spec in specs} == {"sshwarma", "global"}


def test_what_only_people_do_is_no_tool() -> None:
    tools = {spec.name for spec in tool_specs()}
    only_people = {"quit", "set", "alias", "kick", "ban", "mute", "room", "gc", "nav", "edit",
                   "portal", "unportal"}  # fmt: skip
    assert not tools & only_people
    for moves in ("join", "leave", "go", "create", "fork"):
        known = find_verb(moves)
        assert known is not None and known.moves and moves in tools


def test_a_second_verb_of_a_name_is_refused() -> None:
    async def again(caller: Any) -> None:
        """Again"""

    with pytest.raises(ValueError, match="two verbs are called look"):
        verb("look", group="Looking", examples=())(again)
    with pytest.raises(ValueError, match="not a group"):
        verb("unheard-of", group="Nowhere", examples=())


def test_the_schema_of_a_result_is_json_schema() -> None:
    assert TypeAdapter(dict[str, Any]).validate_python(
        find_verb("look").result_adapter.json_schema()
    )
