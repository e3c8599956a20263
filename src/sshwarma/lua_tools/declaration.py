"""The declaration of a Lua tool: the comments at the head of its script.

    -- Rolls dice.
    -- @param sides integer=6 Sides of each die
    -- @param how sum|each=sum Which result to return
    -- @param label string? Words to put before it

Comment lines are its description. `@param NAME TYPE text` declares an argument: TYPE is string,
integer, number, boolean, array, object, or words to choose from; `?` after it makes it optional,
`=DEFAULT` too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sshwarma.common.limits import (
    MAX_PARAMETER_CHOICES,
    MAX_TOOL_DESCRIPTION_CHARACTERS,
    MAX_TOOL_PARAMETERS,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid, too_long_error

PARAMETER_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")

_PARAMETER_PATTERN: Final = re.compile(
    r"""(?P<name>[A-Za-z_][A-Za-z0-9_]{0,63})
        \s+(?P<type>[^\s=?]+)
        (?:(?P<optional>\?)|=(?P<default>"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\{[^}]*\}|\S*))?
        (?:\s+(?P<text>.*))?""",
    re.VERBOSE,
)
_EXAMPLE: Final = "-- @param sides integer=6 Sides of each die"

_CHOICE_PATTERN: Final = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool's description and the JSON Schema of its arguments."""

    description: str
    input_schema: dict[str, Any]


def parse_declaration(source: str) -> ToolDeclaration:
    """Parse the comments at the head of a script.

    Raises:
        Invalid: naming the line that cannot be parsed.
    """
    comments: list[str] = []
    properties: dict[str, Any] = {}
    required: list[str] = []
    for number, text in read_head(source):
        if not text.startswith("@"):
            comments.append(text)
            continue
        tag, _, rest = text.partition(" ")
        if tag != "@param":
            raise _line_error(number, f"unknown tag {shorten_name(tag)}")
        name, parameter, optional = _parse_parameter(number, rest.strip())
        if name in properties:
            raise _line_error(number, f"{name} is declared twice")
        if len(properties) == MAX_TOOL_PARAMETERS:
            raise _line_error(number, f"a tool can have at most {MAX_TOOL_PARAMETERS} arguments")
        properties[name] = parameter
        if not optional:
            required.append(name)
    description = " ".join(comment for comment in comments if comment)
    if len(description) > MAX_TOOL_DESCRIPTION_CHARACTERS:
        error = too_long_error("description", len(description), MAX_TOOL_DESCRIPTION_CHARACTERS)
        error.hints = ("Put comments for readers of the script below an empty line.",)
        raise error
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    return ToolDeclaration(description, schema)


def read_head(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments at the head of a script, with line numbers and no dashes."""
    for number, line in enumerate(source.split("\n"), start=1):
        stripped_line = line.strip()
        if stripped_line and (
            not stripped_line.startswith("--") or stripped_line.startswith("--[")
        ):
            return
        yield number, stripped_line.lstrip("-").strip()


def read_summary(source: str) -> str:
    """Return the first comment line of a script; empty if it has no leading comment."""
    first_line = source.lstrip().split("\n", 1)[0].strip()
    return first_line.lstrip("-").strip() if first_line.startswith("--") else ""


def _parse_parameter(number: int, text: str) -> tuple[str, dict[str, Any], bool]:
    """Return an argument's name, its schema, and whether it is optional."""
    match = _PARAMETER_PATTERN.fullmatch(text)
    if match is None:
        raise _line_error(number, f"{shorten_name(text)!r} must be NAME TYPE text")
    schema = _parse_type(number, match["type"])
    if match["text"]:
        schema["description"] = match["text"].strip()[:MAX_TOOL_DESCRIPTION_CHARACTERS]
    if match["default"] is not None:
        schema["default"] = _parse_default(number, schema, match["default"])
    return match["name"], schema, bool(match["optional"]) or "default" in schema


def _parse_type(number: int, kind: str) -> dict[str, Any]:
    if kind in PARAMETER_TYPES:
        return {"type": kind}
    choices = kind.split("|")
    if len(choices) < 2 or not all(map(_CHOICE_PATTERN.fullmatch, choices)):
        raise _line_error(
            number,
            f"unknown type {shorten_name(kind)};"
            f" choose one of: {', '.join(PARAMETER_TYPES)}, a|b|c",
        )
    if len(choices) > MAX_PARAMETER_CHOICES or len(set(choices)) < len(choices):
        raise _line_error(
            number, f"an argument can have at most {MAX_PARAMETER_CHOICES} choices, all different"
        )
    return {"type": "string", "enum": choices}


def _parse_default(number: int, described: dict[str, Any], text: str) -> Any:
    kind = described["type"]
    value: Any = text
    if kind != "string" or text.startswith('"'):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise _line_error(
                number, f"the default {shorten_name(text)} is not of type {kind}"
            ) from None
    fits: dict[str, bool] = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    if not fits[kind] or value not in described.get("enum", [value]):
        raise _line_error(
            number, f"the default {shorten_name(text)} is not of the type or one of the choices"
        )
    return value


def _line_error(number: int, part: str) -> Invalid:
    return make_line_error(number, part, _EXAMPLE)


def make_line_error(number: int, part: str, example: str) -> Invalid:
    """Return the refusal of a line at the head of a script, with an example."""
    return Invalid(f"Line {number} of the script: {part}.", hint=f"For example: {example}")
