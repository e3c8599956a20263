"""Arguments against schemas: what fits, what is refused, and bounded cost."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sshwarma.common.limits import MAX_ARGUMENT_CHECKS, MAX_ARGUMENTS_BYTES, MAX_NAMED_PROBLEMS
from sshwarma.tools.arguments import check_arguments, parse_arguments
from sshwarma.toolsets.input_schema import find_schema_problem
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import PERSON
from sshwarma.world.things import Thing

DICE = {
    "type": "object",
    "properties": {
        "sides": {"type": "integer", "minimum": 2, "maximum": 100},
        "how": {"type": "string", "enum": ["sum", "each"]},
        "label": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "loud": {"type": "boolean"},
        "faces": {"type": "array", "items": {"type": "string"}},
        "free": {},
    },
    "required": ["sides"],
    "additionalProperties": False,
}


def tool(schema: Any) -> Thing:
    return Thing("t", "p", "tool", "dice", "den:dice", metadata={"input_schema": schema})


def test_valid_arguments_are_passed_on() -> None:
    given = {"sides": 6, "how": "each", "label": None, "loud": True, "faces": ["a"], "free": [1]}
    assert check_arguments(tool(DICE), given) == given
    assert check_arguments(tool(None), {"anything": 1}) == {"anything": 1}
    assert check_arguments(tool("no schema"), {}) == {}


def test_text_values_are_converted_to_the_schema_type() -> None:
    fitted = check_arguments(tool(DICE), {"sides": "6", "loud": "true", "label": "7", "free": "8"})
    assert fitted == {"sides": 6, "loud": True, "label": "7", "free": "8"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "sides: required"),
        ({"sides": "six"}, 'sides: must be a whole number (got "six")'),
        ({"sides": 6.5}, "sides: must be a whole number (got 6.5)"),
        ({"sides": True}, "sides: must be a whole number (got true)"),
        ({"sides": 1}, "sides: must be at least 2 (got 1)"),
        ({"sides": 101}, "sides: must be at most 100 (got 101)"),
        ({"sides": 6, "how": "all"}, 'how: choose one of: "sum", "each" (got "all")'),
        ({"sides": 6, "label": 1}, "label: must be text (got 1)"),
        ({"sides": 6, "faces": ["a", 1]}, "faces.1: must be text (got 1)"),
        ({"sides": 6, "bars": 3}, "bars: unknown argument"),
        ({"sides": 6, "\x1b[2J": 3}, "unknown argument"),
    ],
)
def test_invalid_argument_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_arguments(tool(DICE), given)
    assert words in refused.value.message
    assert refused.value.message.startswith("den:dice: ")
    assert "sides, how?, label?" in refused.value.hint_for(PERSON)


def test_number_of_named_problems_is_limited() -> None:
    with pytest.raises(Invalid) as refused:
        check_arguments(tool(DICE), {"how": 1, **{f"x{n}": n for n in range(50)}})
    assert refused.value.message.count(";") == MAX_NAMED_PROBLEMS
    assert refused.value.message.endswith("; and more.")


def test_all_kinds_of_problems_are_named_in_one_refusal() -> None:
    tea = {
        "type": "object",
        "properties": {
            "cups": {"type": "integer", "maximum": 4},
            "kind": {"enum": ["green", "black"]},
            "who": {"type": "string", "pattern": "^[a-z]+$"},
            "warm": {"type": "boolean"},
            "when": {"type": "string"},
        },
        "required": ["when"],
        "additionalProperties": False,
    }
    with pytest.raises(Invalid) as refused:
        check_arguments(
            tool(tea), {"cups": 9, "kind": "blue", "who": "ABC", "warm": "hot", "sugar": 1}
        )
    for words in (
        "cups: must be at most 4 (got 9)",
        'kind: choose one of: "green", "black" (got "blue")',
        'who: must match ^[a-z]+$ (got "ABC")',
        'warm: must be true or false (got "hot")',
        "when: required",
        "sugar: unknown argument",
    ):
        assert words in refused.value.message
    fits = {"cups": 4, "kind": "green", "who": "abc", "warm": True, "when": "now"}
    assert check_arguments(tool(tea), fits) == fits


def test_pattern_is_matched_in_linear_time() -> None:
    slow = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    began = time.process_time()
    with pytest.raises(Invalid, match="must match"):
        check_arguments(tool(slow), {"x": "a" * 5_000 + "!"})
    many = {"properties": {"x": {"items": {"pattern": r"(\w{0,9})\d"}}}}
    with pytest.raises(Invalid):
        check_arguments(tool(many), {"x": ["ab" * 100] * 2_000})
    assert time.process_time() - began < 2


@pytest.mark.parametrize("pattern", ["(?=x)y", r"(a)\1", "[", "x" * 300])
def test_pattern_that_cannot_be_compiled_is_ignored(pattern: str) -> None:
    assert check_arguments(tool({"properties": {"x": {"pattern": pattern}}}), {"x": "b"})


def test_references_inside_the_schema_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/point"}},
        "$defs": {
            "point": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/point"}},
                "required": ["x"],
            }
        },
    }
    assert check_arguments(tool(schema), {"at": {"x": 1, "next": {"x": 2}}})
    with pytest.raises(Invalid, match=r"at\.next\.x: required"):
        check_arguments(tool(schema), {"at": {"x": 1, "next": {}}})


def test_reference_to_an_entry_of_a_list_is_followed() -> None:
    """An import accepts it, so a call must not take anything for it."""
    size = {"properties": {"size": {"type": "integer"}}}
    properties = {"x": {"$ref": "#/anyOf/0/properties/size"}}
    schema = {"type": "object", "properties": properties, "anyOf": [size]}
    assert not find_schema_problem(schema)
    assert check_arguments(tool(schema), {"x": 3})
    with pytest.raises(Invalid, match="x: must be a whole number"):
        check_arguments(tool(schema), {"x": "three"})


@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:9/schema", "file:///etc/passwd", "other.json", "#/nowhere", "#anchor", 7],
)
def test_references_outside_the_schema_are_not_followed(reference: Any) -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": reference}}, "required": ["x"]}
    assert check_arguments(tool(schema), {"x": 1}) == {"x": 1}
    with pytest.raises(Invalid):
        check_arguments(tool(schema), {})


def _doubling() -> dict[str, Any]:
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    return {"$ref": "#/$defs/d0", "$defs": parts}


HOSTILE: dict[str, Any] = {
    "a circle": {"$ref": "#"},
    "a circle of two": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
                                                       "b": {"$ref": "#/$defs/a"}}},
    "doubling references": _doubling(),
    "patterns without end": {"allOf": [{"properties": {"x": {"pattern": f"(x|y|xy){{0,{n}}}"}}}
                                       for n in range(900)]},
    "names by a pattern": {"patternProperties": {"^(x+)+$": False}, "additionalProperties": False},
    "every branch": {"oneOf": [{"properties": {"x": {}}}] * 2000},
    "never": {"not": {}},
    "wrong types": {"type": 7, "required": "x", "properties": [], "minimum": "1", "enum": 3,
                    "anyOf": {}, "items": 3, "multipleOf": 0},
    "draft 4": {"properties": {"x": {"minimum": 1, "exclusiveMinimum": True}}},
    "unevaluated": {"unevaluatedProperties": False},
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schema_is_checked_quickly(name: str) -> None:
    began = time.thread_time()  # of the processor: a busy machine has less of it to give
    assert check_arguments(tool(HOSTILE[name]), {"x": "a" * 40 + "!"})
    assert time.thread_time() - began < 2


ANY_OF_MANY = {
    "properties": {
        "a": {"items": {"anyOf": [*({"const": f"x{n}"} for n in range(300)), {"type": "integer"}]}}
    }
}
EXPENSIVE: dict[str, tuple[Any, Any]] = {
    "many branches": (ANY_OF_MANY, [1] * 4_000),
    "many values": ({"properties": {"a": {"items": {"type": "integer"}}}}, [1] * 300_000),
    "long constants": (
        {"properties": {"a": {"items": {"anyOf": [{"const": [0] * 99 + [n]} for n in range(99)]}}}},
        [[0] * 99 + [-1]] * 3_000,
    ),
    "long options": (
        {"properties": {"a": {"items": {"enum": list(range(9_000))}}}}, [-1] * 100_000,
    ),
    "many names": (
        {"properties": {"a": {"items": {"anyOf": [{"required": [*"abcdef"]}, {}]}}}},
        [{}] * 100_000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPENSIVE)
def test_check_of_too_many_steps_is_refused(name: str) -> None:
    schema, value = EXPENSIVE[name]
    with pytest.raises(Invalid, match=rf"need too many checks .*limit {MAX_ARGUMENT_CHECKS}"):
        check_arguments(tool(schema), {"a": value})


def test_ordinary_arguments_are_far_from_the_limit_of_checks() -> None:
    assert check_arguments(tool(ANY_OF_MANY), {"a": [1] * 25})
    numbers = {"properties": {"a": {"items": {"type": "integer"}}}}
    assert check_arguments(tool(numbers), {"a": [1] * 20_000})


def test_type_list_of_thousands_is_ignored() -> None:
    types = [*["string"] * 5_000, "integer"]
    schema = {
        "properties": {"a": {"items": {"$ref": "#/d"}}, "p": {"allOf": [{"$ref": "#/d"}] * 2_000}},
        "d": {"type": types},
    }
    assert check_arguments(tool(schema), {"a": [1, None], "p": {}}) == {"a": [1, None], "p": {}}


def test_long_options_are_shortened_in_the_refusal() -> None:
    schema = {"properties": {"a": {"items": {"enum": ["q" * 30_000, "r" * 30_000]}}}}
    with pytest.raises(Invalid) as caught:
        check_arguments(tool(schema), {"a": ["z"] * 300})
    assert len(caught.value.message) < 10_000


def test_large_wrong_value_is_shortened() -> None:
    schema = {"allOf": [{"properties": {"a": {"type": "string"}}}] * MAX_NAMED_PROBLEMS}
    with pytest.raises(Invalid, match=r"a: must be text \(got \[1, 1, 1"):
        check_arguments(tool(schema), {"a": [1] * 300_000})


@pytest.mark.parametrize(
    ("schema", "fits", "fails"),
    [
        ({"const": 1}, [1, 1.0], [True, "1", [1]]),
        (
            {"const": [0, {"x": True}]},
            [[0, {"x": True}]],
            [[False, {"x": True}], [0, {"x": 1}], [0]],
        ),
        ({"enum": [False, "a"]}, [False, "a"], [0, None]),
        ({"type": "integer"}, [1, 1.0], [1.5, True, "x"]),
        ({"type": ["null", "number"]}, [None, 2.5], [False, "x"]),
        ({"exclusiveMaximum": 3}, [2, "abc", True], [3]),
        ({"minLength": 2, "maxItems": 1}, ["ab", [1], 7], ["a", [1, 2]]),
        ({"additionalProperties": {"type": "integer"}}, [{"x": 1}, 3], [{"x": "y"}]),
        ({"items": False}, [[], {}], [[1]]),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, [2], [0, 4]),
    ],
)
def test_keywords_mean_what_they_do_in_json_schema(
    schema: Any, fits: list[Any], fails: list[Any]
) -> None:
    whole = {"properties": {"x": {"anyOf": [schema]}}}
    for value in fits:
        check_arguments(tool(whole), {"x": value})
    for value in fails:
        with pytest.raises(Invalid):
            check_arguments(tool(whole), {"x": value})


def test_deeply_nested_schema_is_accepted() -> None:
    schema: dict[str, Any] = {}
    given: Any = 1
    for _ in range(2000):
        schema = {"properties": {"x": schema}, "type": "object"}
    for _ in range(60):
        given = {"x": given}
    assert check_arguments(tool(schema), given)


def test_arguments_must_be_json_within_the_size_limit() -> None:
    with pytest.raises(Invalid, match=f"at most {MAX_ARGUMENTS_BYTES}"):
        check_arguments(tool(None), {"x": "a" * MAX_ARGUMENTS_BYTES})
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        check_arguments(tool(None), {"x": object()})


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("sides=6", {"sides": 6}),
        ('{"sides": 6}', {"sides": 6}),
        ("""'{"sides": 6, "label": "it"}' """, {"sides": 6, "label": "it"}),
        (r""""{\"sides\": 6}" """, {"sides": 6}),
        ("label=6 sides=6", {"label": "6", "sides": 6}),
        ("label='two words' how=sum", {"label": "two words", "how": "sum"}),
        ("faces='[\"a\"]' loud=true", {"faces": ["a"], "loud": True}),
        ("free=[1] sides=x", {"free": [1], "sides": "x"}),
        ("label=a=b", {"label": "a=b"}),
        ('faces=["a b", "c"] sides=6', {"faces": ["a b", "c"], "sides": 6}),
        ('sides=6 free={"x": {"y": [1]}}', {"sides": 6, "free": {"x": {"y": [1]}}}),
        ('label={"a":1}', {"label": '{"a":1}'}),
        ('label="say faces=[1] now" sides=6', {"label": "say faces=[1] now", "sides": 6}),
        ("free={x} sides=6", {"free": "{x}", "sides": 6}),
        ("free=[1]x", {"free": "[1]x"}),
        ("label=", {"label": ""}),
    ],
)
def test_typed_words_are_parsed_by_the_schema(text: str, arguments: dict[str, Any]) -> None:
    assert parse_arguments(tool(DICE), text) == arguments


@pytest.mark.parametrize("text", ["6", "=6", "{", "[1]", "a='b", '{"a": 1} x'])
def test_unparsable_words_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_arguments(tool(DICE), text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("""'{"sides": 6' """, "The arguments are not valid JSON"),
        (""""{"sides": 6}" """, "The arguments are not valid JSON"),
        ("""'{"sides": 6}' label=x""", '{"sides": 6} is not NAME=VALUE.'),
    ],
)
def test_refusal_of_an_object_in_quotes_says_how_it_is_quoted(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_arguments(tool(DICE), text)
    assert refused.value.message.startswith(said)
    assert "in single quotes or in none" in refused.value.hint_for(PERSON)
