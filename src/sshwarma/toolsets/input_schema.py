"""Checks the JSON Schema that a manifest gives for the arguments of a tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from sshwarma.common.limits import MAX_SERVER_SCHEMA_BYTES
from sshwarma.common.shorten import shorten_name, shorten_text
from sshwarma.tools.json_pointers import find_part

_REFERENCE_KEYWORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def find_schema_problem(schema: dict[str, Any]) -> str:
    """Return what is wrong with a schema, as the rest of a sentence; or "".

    It must be a valid schema of an object (draft 2020-12) whose references lead to a part of
    itself. A text named `$ref` counts as a reference wherever it stands.
    """
    if schema.get("type") != "object":
        return "type must be object: a tool takes named arguments"
    size = len(json.dumps(schema, ensure_ascii=False).encode())
    if size > MAX_SERVER_SCHEMA_BYTES:
        return f"must have at most {MAX_SERVER_SCHEMA_BYTES} bytes of JSON (got {size})"
    for keyword, value in _walk(schema):
        if keyword == "$id":
            return "must have no $id: references are to a part of the schema itself"
        if not isinstance(value, str):
            continue  # an argument of that name, or refused below
        if not (value + "/").startswith("#/"):
            return f"{keyword} must begin with #/, a part of the schema (got {shorten_name(value)})"
        if not isinstance(find_part(schema, value), dict | bool):
            return f"{keyword} {shorten_name(value)} leads to no part of the schema"
    return _find_invalid(schema)


def _walk(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield each reference and each `$id` with a text, at any depth."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for key, inner in value.items():
                if key in _REFERENCE_KEYWORDS or (key == "$id" and isinstance(inner, str)):
                    yield key, inner
                waiting.append(inner)


def _find_invalid(schema: dict[str, Any]) -> str:
    # Loaded here: it takes long, and only an import of a toolset needs it.
    from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]

    try:
        # Without formats: patterns are compiled where they are used, in bounds.
        Draft202012Validator.check_schema(schema, format_checker=None)
    except SchemaError as error:
        place = ".".join(str(part) for part in error.absolute_path)
        where = f"{shorten_name(place)}: " if place else ""
        return f"{where}{shorten_text(error.message)}"
    return ""
