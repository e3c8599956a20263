"""What a script's first comments declare."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_TOOL_DESCRIPTION_CHARACTERS, MAX_TOOL_PARAMETERS
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.world.errors import Invalid


def test_description_and_typed_parameters_are_parsed() -> None:
    made = parse_declaration(
        """
--- Rolls dice,
-- many at once.
--
---@param sides integer=6 Sides of each die
-- @param count integer
-- @param scale number? What to multiply by
-- @param loud boolean=false
-- @param names array=["a", "b"] Who rolls
-- @param extra object?
-- @param how sum|each=sum What to give
-- @param label string="two words" Before it
--   @param word string=plain
return 1 -- @param not one
-- @param nor integer"""
    )
    assert made.description == "Rolls dice, many at once."
    properties: dict[str, Any] = {
        "sides": {"type": "integer", "default": 6, "description": "Sides of each die"},
        "count": {"type": "integer"},
        "scale": {"type": "number", "description": "What to multiply by"},
        "loud": {"type": "boolean", "default": False},
        "names": {"type": "array", "default": ["a", "b"], "description": "Who rolls"},
        "extra": {"type": "object"},
        "how": {
            "type": "string", "enum": ["sum", "each"], "default": "sum",
            "description": "What to give",
        },
        "label": {"type": "string", "default": "two words", "description": "Before it"},
        "word": {"type": "string", "default": "plain"},
    }  # fmt: skip
    assert made.input_schema == {
        "type": "object",
        "properties": properties,
        "required": ["count"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("source", ["return 1", "", "\n\n", "--[[ long ]] return 1", "local a = 1"])
def test_script_without_a_declaration_takes_no_arguments(source: str) -> None:
    made = parse_declaration(source)
    assert made.description == ""
    assert made.input_schema["properties"] == {}
    assert made.input_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("@param", "must be NAME TYPE text"),
        ("@param sides", "must be NAME TYPE text"),
        ("@param 1st integer", "must be NAME TYPE text"),
        ("@param sides die", "unknown type die;"),
        ("@param sides a|", "unknown type a|;"),
        ("@param sides a|a", "choices, all different"),
        ("@param sides integer=six", "the default six is not of type integer"),
        ("@param sides integer=1.5", "is not of the type or one of the choices"),
        ("@param sides integer=true", "is not of the type or one of the choices"),
        ("@param how a|b=c", "the default c is not of the type or one of the choices"),
        ("@param names array={}", "is not of the type or one of the choices"),
        ("@parm sides integer", "unknown tag @parm"),
    ],
)
def test_invalid_declaration_names_its_line(line: str, wrong: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_declaration(f"-- Rolls.\n-- {line}\nreturn 1")
    assert refused.value.message.startswith("Line 2 of the script: ")
    assert wrong in refused.value.message


def test_duplicate_and_excess_declarations_are_refused() -> None:
    with pytest.raises(Invalid, match="declared twice"):
        parse_declaration("-- @param a string\n-- @param a string")
    many = "".join(f"-- @param a{n} string\n" for n in range(MAX_TOOL_PARAMETERS + 1))
    with pytest.raises(Invalid, match=f"at most {MAX_TOOL_PARAMETERS}"):
        parse_declaration(many)
    with pytest.raises(Invalid, match=f"at most {MAX_TOOL_DESCRIPTION_CHARACTERS}"):
        parse_declaration("-- " + "x" * (MAX_TOOL_DESCRIPTION_CHARACTERS + 1))


@given(st.text(alphabet='-@param string=?"[]{}\n\\ax1|', max_size=200))
def test_any_declaration_is_parsed_or_refused(text: str) -> None:
    try:
        made = parse_declaration("-- @param " + text)
    except Invalid as refused:
        assert refused.message
    else:
        assert made.input_schema["type"] == "object"
