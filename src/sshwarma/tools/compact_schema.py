"""Compact input schemas for lists of tools, without what tells callers nothing.

The thing of a tool keeps the whole schema, which checks the arguments of a call, so a call may
still have the parameters that a list omits. A model's request pays for every word of its list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sshwarma.common.limits import MAX_EXACT_INTEGER

_DETAILS: Final = frozenset(("description", "default", "minimum", "maximum", "pattern"))

_SHORT_KEYWORDS: Final = ("type", "enum", "const", "items", "properties", "required")
"""Keywords that stay in a short schema: names, kinds and choices."""


def make_compact_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input schema without the nulls and bounds that tell a caller nothing.

    A parameter that is not required may be left out: that says what `null` and a default of null
    would.
    """
    compact = {key: value for key, value in schema.items() if key not in ("title", "$schema")}
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        required = schema.get("required") or ()
        compact["properties"] = {
            name: _compact_property(part, is_required=name in required)
            for name, part in properties.items()
        }
    return compact


def _compact_property(schema: Any, *, is_required: bool) -> Any:
    if not isinstance(schema, dict):
        return schema
    part = dict(schema)
    choices = part.get("anyOf")
    if isinstance(choices, list) and not is_required:
        others = [choice for choice in choices if choice != {"type": "null"}]
        if len(others) == 1 and len(choices) == 2 and isinstance(others[0], dict):
            del part["anyOf"]
            part = {**others[0], **part}
    if part.get("default", "") in (None, "", False):  # what leaving it out says as well
        part.pop("default", None)
    if part.get("maximum") == MAX_EXACT_INTEGER:
        del part["maximum"]
    if part.get("minimum") in (0, 1) and part.get("type") == "integer":
        del part["minimum"]
    if isinstance(part.get("title"), str):
        del part["title"]
    return part


def make_model_schema(
    schema: Mapping[str, Any],
    *,
    leave_out: Iterable[str] = (),
    descriptions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return an input schema as a model is offered it.

    Rules between arguments are left out: the refusal of a call states them.

    Args:
        schema: the whole schema.
        leave_out: parameters to leave out.
        descriptions: what to say of parameters, by name; each then keeps its type and its choices,
            and loses its default and bounds. None leaves the parameters as they are.
    """
    compact = {"type": "object", "properties": {}, **make_compact_schema(schema)}
    for rule in ("dependentSchemas", "minProperties"):
        compact.pop(rule, None)
    if compact.get("additionalProperties") is False:
        del compact["additionalProperties"]
    dropped = set(leave_out)
    compact["properties"] = {
        name: part if descriptions is None else _describe(part, descriptions.get(name, ""))
        for name, part in compact["properties"].items()
        if name not in dropped
    }
    return compact


def _describe(schema: Any, description: str) -> Any:
    """Return type and choices of a parameter, with its description if not empty."""
    if not isinstance(schema, dict):
        return schema
    part = {key: value for key, value in schema.items() if key not in _DETAILS}
    return {**part, "description": description} if description else part


def make_short_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a small model's input schema: no descriptions, bounds and defaults.

    Parameters that may be left out lose the choice `null`. A schema with definitions stays as it
    is, because something may refer to them.
    """
    if "$ref" in schema or "$defs" in schema:
        return dict(schema)
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(choices) == 1 and isinstance(choices[0], dict):
        return make_short_schema(choices[0])
    if choices:
        return {"anyOf": choices}
    short: dict[str, Any] = {key: schema[key] for key in _SHORT_KEYWORDS if key in schema}
    if isinstance(properties := short.get("properties"), dict):
        short["properties"] = {
            name: make_short_schema(part) if isinstance(part, dict) else part
            for name, part in properties.items()
        }
    if isinstance(items := short.get("items"), dict):
        short["items"] = make_short_schema(items)
    return short
