"""Schemas of tools in a form whose checks have a bounded cost.

A schema is untrusted: references within it are inlined, up to a depth; external references are
never followed; keywords of unbounded cost (counting matching branches) are dropped. The result
accepts a superset of the original; the provider may still reject.
"""

from __future__ import annotations

from typing import Any, Final

from sshwarma.tools.json_pointers import find_part

MAX_SCHEMA_NODES: Final = 4_000
"""Nodes of a schema that are checked; the rest accepts everything."""

MAX_SCHEMA_DEPTH: Final = 40
"""Maximum levels of nested nodes and references that are checked."""

TYPE_DESCRIPTIONS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
"""Words for the types of values."""

_NUMERIC_KEYWORDS: Final = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip


_KEYWORDS: Final = frozenset(("type", "enum", "const", "required", "pattern", *_NUMERIC_KEYWORDS))


def bound_schema(whole: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without what makes its checks costly."""
    return _BoundedSchema(whole).schema


class _BoundedSchema:
    """A schema of bounded cost: without references, of monotone keywords only."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self._root_schema = whole
        self._nodes_left = MAX_SCHEMA_NODES
        schema = self._simplify_node(whole, 0)
        self.schema: dict[str, Any] = schema if isinstance(schema, dict) else {}

    def _simplify_node(self, node: Any, depth: int) -> dict[str, Any] | bool:
        self._nodes_left -= 1
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict) or self._nodes_left < 0 or depth > MAX_SCHEMA_DEPTH:
            return {}
        schema = {
            key: value
            for key, value in node.items()
            if key in _KEYWORDS and _is_kept_keyword(key, value)
        }
        if isinstance(node.get("properties"), dict):
            schema["properties"] = {
                name: self._simplify_node(subschema, depth + 1)
                for name, subschema in node["properties"].items()
            }
        for key, keyword in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
            if isinstance(node.get(key), list) and node[key]:
                options = [self._simplify_node(subschema, depth + 1) for subschema in node[key]]
                if keyword in schema:
                    schema.setdefault("allOf", []).append({keyword: options})
                else:
                    schema[keyword] = options
        if isinstance(node.get("items"), dict | bool) and "prefixItems" not in node:
            schema["items"] = self._simplify_node(node["items"], depth + 1)
        additional_schema = node.get("additionalProperties")
        if isinstance(additional_schema, dict | bool) and "patternProperties" not in node:
            schema["additionalProperties"] = self._simplify_node(
                node["additionalProperties"], depth + 1
            )
        if "$ref" in node:
            target = self._simplify_node(find_part(self._root_schema, node["$ref"]), depth + 1)
            schema.setdefault("allOf", []).append(target)
        return schema


def _is_kept_keyword(key: str, value: Any) -> bool:
    match key:
        case "type":
            kinds = value if isinstance(value, list) else [value]
            # A valid list names each type once; a longer one costs time at each value.
            return 0 < len(kinds) <= len(TYPE_DESCRIPTIONS) and all(
                isinstance(kind, str) and kind in TYPE_DESCRIPTIONS for kind in kinds
            )
        case "enum":
            return isinstance(value, list)
        case "const":
            return True
        case "required":
            return isinstance(value, list) and all(isinstance(name, str) for name in value)
        case "pattern":
            return isinstance(value, str)
        case key if key in _NUMERIC_KEYWORDS:
            return isinstance(value, int | float) and not isinstance(value, bool)
    return False
