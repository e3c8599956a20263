"""Sentences about invalid values: what errors of pydantic and json mean, in plain words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

MAX_SHOWN_VALUE_CHARACTERS: Final = 40

_REQUIREMENTS: Final = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "tuple_type": "must be a list",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
"""Requirement on a value, by the type of pydantic's error."""


def describe_requirement(kind: str, context: Mapping[str, Any]) -> str | None:
    """Return what a value must be: "must be at least 1"; None for other types of errors."""
    if kind == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return f"choose one of: {choices}"
    must = _REQUIREMENTS.get(kind)
    return must.format_map(whole_numbers(context)) if must is not None else None


def whole_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with 1800.0 as 1800, as people write it."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in values.items()
    }


def format_given(value: object) -> str:
    """Format a value that was given, for "(got 0)": on one line, without quotes."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return ascii(value).strip("'\"")[:MAX_SHOWN_VALUE_CHARACTERS] or "nothing"


def describe_json_error(error: ValueError | RecursionError) -> str:
    """Return why a text is not JSON, without Python's own words: "line 1, column 9: …"."""
    match error:
        case json.JSONDecodeError():
            return f"line {error.lineno}, column {error.colno}: {error.msg}"
        case UnicodeDecodeError():
            return "the text is not UTF-8"
        case RecursionError():
            return "it is nested too deeply"
    return "a number has too many digits"
