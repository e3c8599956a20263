"""The parameters of a tool for people: their types and their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from sshwarma.tools.arguments import get_input_schema
from sshwarma.tools.type_names import name_type, resolve_reference
from sshwarma.world.things import Thing

MAX_NAMED_PARAMETERS: Final = 60
"""Parameters of a tool that Tab offers."""

_MAX_VALUES: Final = 100
"""Values of a parameter that are read: a schema is anybody's, and may list millions."""

_MAX_NESTING: Final = 4
"""Alternatives inside of each other that are read."""


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """A parameter of a tool; if its schema lists `values`, no others are allowed."""

    name: str
    required: bool
    note: str
    values: tuple[Any, ...]


def describe_parameters(tool: Thing) -> list[ToolParameter]:
    """List the parameters of a tool by its schema, at most MAX_NAMED_PARAMETERS."""
    root = get_input_schema(tool)
    declared, required = root.get("properties"), root.get("required")
    required = required if isinstance(required, list) else []
    parameters = []
    for name, schema in islice(
        declared.items() if isinstance(declared, dict) else (), MAX_NAMED_PARAMETERS
    ):
        described = schema.get("description") if isinstance(schema, dict) else None
        text = described.split("\n", 1)[0] if isinstance(described, str) else ""
        notes = [name_type(schema, root), "" if name in required else "optional", text]
        values = tuple(islice(_list_values(schema, root, _MAX_NESTING), _MAX_VALUES))
        parameters.append(
            ToolParameter(name, name in required, ", ".join(filter(None, notes)), values)
        )
    return parameters


def _list_values(schema: Any, root: Mapping[str, Any], depth: int) -> Iterator[Any]:
    """Return the values that a schema lists; nothing if it lists none."""
    schema = resolve_reference(schema, root)
    if not isinstance(schema, Mapping) or not depth:
        return
    kind = schema.get("type")
    if isinstance(listed := schema.get("enum"), list):
        yield from (value for value in listed if value is not None)
    elif "const" in schema:
        yield schema["const"]
    elif kind == "boolean" or (isinstance(kind, list) and "boolean" in kind):
        yield from (True, False)
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), list):
            for option in options[:_MAX_VALUES]:
                yield from _list_values(option, root, depth - 1)
