"""What a Lua tool says of itself in the comments it begins with:

    -- Rolls dice.
    -- @param sides integer=6 Sides of each die
    -- @param how sum|each=sum What to give back
    -- @param label string? Words to put before it

Comment lines are its description. `@param NAME TYPE text` declares an argument: TYPE is string,
integer, number, boolean, array, object, or words to choose from; `?` after it makes it optional,
`=DEFAULT` too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from sshwarma.world.errors import Invalid

TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")

PARAMETERS: Final = 32
"""Most arguments of one tool."""

DESCRIPTION: Final = 1_000
"""Characters of a description: it is in the context of every model that has the tool."""

CHOICES: Final = 64
"""Most words to choose from."""

_PARAMETER: Final = re.compile(
    r"""(?P<name>[A-Za-z_][A-Za-z0-9_]{0,63})
        \s+(?P<type>[^\s=?]+)
        (?:(?P<optional>\?)|=(?P<default>"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\{[^}]*\}|\S*))?
        (?:\s+(?P<text>.*))?""",
    re.VERBOSE,
)
_CHOICE: Final = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A tool's description and the JSON Schema of its arguments."""

    description: str
    input_schema: dict[str, Any]


def declared(source: str) -> Declaration:
    """What the comments at the head of a script declare.

    Raises:
        Invalid: naming the line that cannot be read.
    """
    words: list[str] = []
    properties: dict[str, Any] = {}
    required: list[str] = []
    for number, line in enumerate(source.split("\n"), start=1):
        stripped = line.strip()
        if stripped and (not stripped.startswith("--") or stripped.startswith("--[")):
            break
        text = stripped.lstrip("-").strip()
        if not text.startswith("@"):
            words.append(text)
            continue
        tag, _, rest = text.partition(" ")
        if tag != "@param":
            raise _wrong(number, f"{tag[:40]} is not known here")
        name, described, optional = _parameter(number, rest.strip())
        if name in properties:
            raise _wrong(number, f"{name} is declared twice")
        if len(properties) == PARAMETERS:
            raise _wrong(number, f"a tool has at most {PARAMETERS} arguments")
        properties[name] = described
        if not optional:
            required.append(name)
    description = " ".join(word for word in words if word)
    if len(description) > DESCRIPTION:
        raise Invalid(
            f"The description has {len(description)} characters; at most {DESCRIPTION} fit.",
            hint="An empty line of code ends it: what is for readers of the script goes below.",
        )
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    return Declaration(description, schema)


def summary(source: str) -> str:
    """The first comment line of a script; empty if it begins with none."""
    first = source.lstrip().split("\n", 1)[0].strip()
    return first.lstrip("-").strip() if first.startswith("--") else ""


def _parameter(number: int, text: str) -> tuple[str, dict[str, Any], bool]:
    """An argument's name, its schema, and whether it may be left out."""
    found = _PARAMETER.fullmatch(text)
    if found is None:
        raise _wrong(number, f"{text[:60]!r} is not NAME TYPE text")
    described = _typed(number, found["type"])
    if found["text"]:
        described["description"] = found["text"].strip()[:DESCRIPTION]
    if found["default"] is not None:
        described["default"] = _default(number, described, found["default"])
    return found["name"], described, bool(found["optional"]) or "default" in described


def _typed(number: int, kind: str) -> dict[str, Any]:
    if kind in TYPES:
        return {"type": kind}
    choices = kind.split("|")
    if len(choices) < 2 or not all(map(_CHOICE.fullmatch, choices)):
        raise _wrong(number, f"{kind[:40]} is no type; there are {', '.join(TYPES)} and a|b|c")
    if len(choices) > CHOICES or len(set(choices)) < len(choices):
        raise _wrong(number, f"at most {CHOICES} words can be chosen from, each named once")
    return {"type": "string", "enum": choices}


def _default(number: int, described: dict[str, Any], text: str) -> Any:
    kind = described["type"]
    value: Any = text
    if kind != "string" or text.startswith('"'):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise _wrong(number, f"{text[:40]} is not {kind}, the type before it") from None
    fits: dict[str, bool] = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    if not fits[kind] or value not in described.get("enum", [value]):
        raise _wrong(number, f"{text[:40]} is not one of what it may be")
    return value


def _wrong(number: int, what: str) -> Invalid:
    return Invalid(
        f"Line {number} of the script: {what}.",
        hint="As in: -- @param sides integer=6 Sides of each die",
    )
