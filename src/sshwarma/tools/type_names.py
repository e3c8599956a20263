"""Types of arguments in a few words, from their JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sshwarma.tools.json_pointers import find_part

_DEPTH: Final = 4
"""Objects and lists inside of each other that are named; below, only the kind is."""

_MEMBERS: Final = 8
"""Values, alternatives or fields that are named."""

_REFERENCE: Final = "#/$defs/"


def name_type(schema: Any, root: Mapping[str, Any], depth: int = _DEPTH) -> str:
    """Return what a value must be, such as `red|blue` or `{x, y?}[]`.

    Args:
        schema: of the value.
        root: the schema that has its definitions.
        depth: objects and lists inside of it that may be named.
    """
    if not isinstance(schema, Mapping):
        return "any"
    known = resolve_reference(schema, root)
    if known is not schema:
        return name_type(known, root, depth - 1) if depth else _name_reference(schema) or "any"
    if name := _name_reference(schema):
        return name
    if "enum" in schema or "const" in schema:
        listed = schema.get("enum", [schema.get("const")])
        values = listed if isinstance(listed, list) else []
        return _join((one if isinstance(one, str) else json.dumps(one) for one in values), "|")
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), list):
            kinds = [option for option in options if option != {"type": "null"}]
            if not depth:
                return "any"
            # A schema is anybody's: it may list thousands, of which few are shown.
            named = (name_type(one, root, depth - 1) for one in kinds[: _MEMBERS + 1])
            return _join(dict.fromkeys(named), "|")
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return _join((str(one) for one in kind if one != "null"), "|")
    if kind == "array" and depth and isinstance(schema.get("items"), Mapping):
        item = name_type(schema["items"], root, depth - 1)
        return f"({item})[]" if "|" in item and item[0] != "{" else f"{item}[]"
    if kind == "object" and depth:
        return _name_object(schema, root, depth)
    return str(kind)


def resolve_reference(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the part of the root that a schema refers to, or else the schema itself.

    Args:
        schema: which may refer to a part, such as a definition.
        root: the schema that has the part.
    """
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    part = find_part(root, reference)
    return schema if part is None else part


def _name_reference(schema: Any) -> str:
    """Return the name of the definition that a schema refers to; "" if it does not."""
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    if not isinstance(reference, str) or not reference.startswith(_REFERENCE):
        return ""
    return reference.removeprefix(_REFERENCE)


def _name_object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    required = required if isinstance(required, list) else []
    if isinstance(properties, Mapping) and properties:
        names = (name if name in required else f"{name}?" for name in properties)
        return f"{{{_join(names, ', ')}}}"
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping) and values:
        return f"object of {name_type(values, root, depth - 1)}"
    return "object"


def _join(names: Iterable[str], separator: str) -> str:
    shown = list(names)
    rest = ["…"] if len(shown) > _MEMBERS else []
    return separator.join([*shown[:_MEMBERS], *rest]) or "any"
