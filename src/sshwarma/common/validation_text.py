"""Sentences about invalid values: errors of pydantic and json in plain words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

MAX_SHOWN_VALUE_CHARACTERS: Final = 40

_REQUIREMENTS: Final = {
    "missing": "required",
    "extra_forbidden": "unknown argument",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number with fewer digits",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be {text}",
    "string_unicode": "must be {text} in UTF-8",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "path_type": "must be {text}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "too_long": "must have at most {max_length} entries",
    "model_type": "must be {mapping}",
    "model_attributes_type": "must be {mapping}",
    "dict_type": "must be {mapping}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
"""Requirement on a value, by the type of pydantic's error."""

_WITHOUT_VALUE: Final = ("missing", "extra_forbidden", "string_too_short", "value_error")
"""Types of errors whose sentence says all, without "(got …)"."""

UNKNOWN_REQUIREMENT: Final = "is not valid"
"""The sentence for a type of error without one of its own; a test looks for it."""


def describe_validation_error(
    detail: Mapping[str, Any], *, in_file: bool = False, show_value: bool = True
) -> str:
    """Describe one of pydantic's errors, without the name of what is wrong.

    Args:
        detail: the error, as in `ValidationError.errors`.
        in_file: whether the value is from a settings file, where a text has quotes and a mapping
            is a table.
        show_value: whether to add the value that was given, as "(got 0)". Of a text that is too
            long, only its length is added.
    """
    kind, context = str(detail["type"]), detail.get("ctx") or {}
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        must = f"choose one of: {choices}"
    else:
        words = {
            "text": "a text in quotes" if in_file else "text",
            "mapping": "a table" if in_file else "an object",
        }
        must = _REQUIREMENTS.get(kind, UNKNOWN_REQUIREMENT).format_map(
            words | whole_numbers(context)
        )
    if kind in _WITHOUT_VALUE or not show_value:
        return must
    value = detail.get("input")
    if kind in ("string_too_long", "too_long"):
        return f"{must} (got {context.get('actual_length') or len(value or ())})"
    return f"{must} (got {format_given(value)})"


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
    """Return in plain words why a text is not JSON: "line 1, column 9: …"."""
    match error:
        case json.JSONDecodeError():
            return f"line {error.lineno}, column {error.colno}: {error.msg}"
        case UnicodeDecodeError():
            return "the text is not UTF-8"
        case RecursionError():
            return "it is nested too deeply"
    return "a number has too many digits"
