"""Sanitize the tool listing of an untrusted server.

Each tool is repaired if that is safe and refused if it is not, with a note on each. One bad tool
never hides the others.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sshwarma.common.limits import (
    MAX_REFUSED_TOOLS,
    MAX_SERVER_DESCRIPTION_BYTES,
    MAX_SERVER_SCHEMA_BYTES,
    MAX_SERVER_SCHEMA_DEPTH,
    MAX_SERVER_TITLE_CHARACTERS,
    MAX_SERVER_TOOL_NAME_CHARACTERS,
)
from sshwarma.common.shorten import count_rest, shorten_name, shorten_text

ANNOTATION_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

_INVALID_NAME_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_REFERENCE_KEYWORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_EXACT_KEYWORDS: Final = frozenset({"const", "enum", "pattern"})


class UnusableTool(Exception):
    """Why a tool is refused."""


@dataclass(frozen=True, slots=True)
class RejectedTool:
    """Stands for a tool that was refused before sanitizing."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SanitizedTool:
    """A sanitized tool.

    Attributes:
        remote: The server's name of the tool.
        fingerprint: Hash of the server's whole description of the tool, before sanitizing.
        repairs: Notes on what was repaired.
    """

    name: str
    remote: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any]
    fingerprint: str
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolListing:
    """Tools of a server in its order, and refused tools as (name, reason)."""

    tools: tuple[SanitizedTool, ...] = ()
    refused: tuple[tuple[str, str], ...] = field(default=())


def sanitize_listing(
    raw: list[Any], limit: int, previous: Mapping[str, SanitizedTool] | None = None
) -> ToolListing:
    """Sanitize a server's tool listing.

    Args:
        raw: Entries as the server sent them.
        limit: Number of tools to accept; the rest are refused.
        previous: Already sanitized tools by fingerprint, because most listings repeat the last one.
    """
    tools: list[SanitizedTool] = []
    refusals: list[tuple[str, str]] = []
    remote_names: dict[str, str] = {}
    for entry in raw:
        try:
            if len(tools) >= limit:
                raise UnusableTool(f"over the limit of {limit} tools")
            tool = _sanitize_tool(entry, previous or {})
            # Models see `a.b` and `a_b` as the same name.
            model_name = tool.name.replace(".", "_")
            if model_name in remote_names:
                raise UnusableTool(
                    "its name collides with "
                    + shorten_name(strip_invisible(remote_names[model_name]))
                )
            remote_names[model_name] = tool.remote
        except UnusableTool as error:
            refusals.append((_display_name(entry), str(error)))
        else:
            tools.append(tool)
    report = refusals[:MAX_REFUSED_TOOLS]
    if rest := count_rest(len(refusals) - len(report)):
        report.append(("…", rest))
    return ToolListing(tuple(tools), tuple(report))


_BLANK: Final = re.compile("[\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that are drawn as nothing: fillers, and selectors of variants of ideographs."""

_VARIATION_RUN: Final = re.compile("([\ufe00-\ufe0f])[\ufe00-\ufe0f]+")
"""Selectors after the first, which chooses how a character looks; the others can hide a text."""


def strip_invisible(text: str) -> str:
    """Remove invisible characters: control, format, bidirectional and filler ones."""
    seen = "".join(
        char for char in text if char in "\n\t" or not unicodedata.category(char).startswith("C")
    )
    return _VARIATION_RUN.sub(r"\1", _BLANK.sub("", seen))


def canonical_json(value: Any) -> str:
    """Serialize to JSON so that equal values give equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _sanitize_tool(entry: Any, before: Mapping[str, SanitizedTool]) -> SanitizedTool:
    if isinstance(entry, RejectedTool):
        raise UnusableTool(entry.reason)
    if not isinstance(entry, dict):
        raise UnusableTool("it is not an object")
    remote = entry.get("name")
    if not isinstance(remote, str) or not remote:
        raise UnusableTool("it has no name")
    if len(remote) > 1_000:
        raise UnusableTool(f"its name is too long ({len(remote)} characters)")
    fingerprint = _fingerprint_tool(entry)
    if fingerprint in before:
        return before[fingerprint]
    notes: list[str] = []
    name = _sanitize_name(remote, notes)
    description = _sanitize_text(entry.get("description"), "its description", notes)
    title = _sanitize_text(entry.get("title"), "its title", notes)[:MAX_SERVER_TITLE_CHARACTERS]
    input_schema = _sanitize_input_schema(entry.get("inputSchema"), notes)
    output_schema = _sanitize_output_schema(entry.get("outputSchema"), notes)
    hints = entry.get("annotations")
    annotations = {
        hint: value
        for hint in ANNOTATION_HINTS
        if isinstance(hints, dict) and isinstance(value := hints.get(hint), bool)
    }
    return SanitizedTool(
        name=name,
        remote=remote,
        title=title,
        description=description,
        input_schema=input_schema,
        output_schema=output_schema,
        annotations=annotations,
        fingerprint=fingerprint,
        repairs=tuple(notes),
    )


def _sanitize_name(remote: str, notes: list[str]) -> str:
    name = _INVALID_NAME_CHARACTERS.sub("_", unicodedata.normalize("NFKC", remote)).lstrip("_.-")
    digest = hashlib.sha256(remote.encode("utf-8", "surrogatepass")).hexdigest()
    if not name.strip("_"):
        name = f"tool_{digest[:8]}"
    if len(name) > MAX_SERVER_TOOL_NAME_CHARACTERS:
        name = f"{name[: MAX_SERVER_TOOL_NAME_CHARACTERS - 9]}_{digest[:8]}"
    if name != remote:
        notes.append(
            f"renamed from {shorten_text(strip_invisible(remote))!r}, which is not a valid"
            " name here"
        )
    return name


def _sanitize_text(text: Any, what: str, notes: list[str]) -> str:
    if not isinstance(text, str):
        if text is not None:
            notes.append(f"{what} was not text and was dropped")
        return ""
    clean_text = strip_invisible(text)
    if clean_text != text:
        notes.append(f"{what} had {len(text) - len(clean_text)} invisible characters")
    data = clean_text.strip().encode()
    if len(data) > MAX_SERVER_DESCRIPTION_BYTES:
        notes.append(f"{what} was cut from {len(data)} to {MAX_SERVER_DESCRIPTION_BYTES} bytes")
        return data[:MAX_SERVER_DESCRIPTION_BYTES].decode("utf-8", "ignore") + "…"
    return clean_text.strip()


def _sanitize_input_schema(schema: Any, notes: list[str]) -> dict[str, Any]:
    if schema is None:
        notes.append("it has no input schema; any arguments are passed on")
        return {"type": "object"}
    if not isinstance(schema, dict):
        raise UnusableTool("its input schema is not an object")
    if "type" not in schema:
        notes.append("its input schema had no type; it is treated as an object")
        schema = {**schema, "type": "object"}
    if schema["type"] != "object":
        raise UnusableTool(
            f"its input schema is of type {shorten_name(ascii(schema['type']))}, not object"
        )
    return _sanitize_schema(schema, "input", notes)


def _sanitize_output_schema(schema: Any, notes: list[str]) -> dict[str, Any] | None:
    if schema is None:
        return None
    try:
        if not isinstance(schema, dict):
            raise UnusableTool("its output schema is not an object")
        return _sanitize_schema(schema, "output", notes)
    except UnusableTool as error:
        notes.append(f"{error}; it was dropped")
        return None


def _sanitize_schema(schema: dict[str, Any], which: str, notes: list[str]) -> dict[str, Any]:
    """Return the schema with cleaned texts.

    Raises:
        UnusableTool: if it is invalid, too large, too deep, or refers to other documents.
    """
    try:
        size = len(canonical_json(schema))
    except (ValueError, RecursionError) as error:
        raise UnusableTool(f"its {which} schema is nested too deeply") from error
    if size > MAX_SERVER_SCHEMA_BYTES:
        raise UnusableTool(
            f"its {which} schema must be at most {MAX_SERVER_SCHEMA_BYTES} bytes (got {size})"
        )
    for depth, key, value in _walk_keys(schema):
        if depth > MAX_SERVER_SCHEMA_DEPTH:
            raise UnusableTool(f"its {which} schema has over {MAX_SERVER_SCHEMA_DEPTH} levels")
        if key in _REFERENCE_KEYWORDS and isinstance(value, str) and not value.startswith("#"):
            raise UnusableTool(
                f"its {which} schema has an external reference: "
                + shorten_name(strip_invisible(value))
            )
        if strip_invisible(key) != key:
            raise UnusableTool(f"its {which} schema has invisible characters in a key")
    # Imported with the first listing: a server without MCP servers does without its 3 MiB.
    from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise UnusableTool(
            f"its {which} schema is invalid: {shorten_text(strip_invisible(error.message))}"
        ) from error
    clean_schema = _strip_schema_text(schema, which)
    if clean_schema != schema:
        notes.append(f"texts in its {which} schema had invisible characters")
    return clean_schema if isinstance(clean_schema, dict) else schema


def _walk_keys(value: Any) -> Iterator[tuple[int, str, Any]]:
    """Yield the depth, key and value of every key in nested objects."""
    stack: list[tuple[int, Any]] = [(1, value)]
    while stack:
        depth, node = stack.pop()
        if isinstance(node, dict):
            for key, child in node.items():
                yield depth, str(key), child
                stack.append((depth + 1, child))
        elif isinstance(node, list):
            stack += [(depth + 1, child) for child in node]


def _strip_schema_text(value: Any, which: str) -> Any:
    """Return a schema without invisible characters in its texts.

    Raises:
        UnusableTool: if a value that a call has to repeat has some: it would not be the same.
    """
    if isinstance(value, str):
        return strip_invisible(value)
    if isinstance(value, list):
        return [_strip_schema_text(child, which) for child in value]
    if not isinstance(value, dict):
        return value
    clean = {key: _strip_schema_text(child, which) for key, child in value.items()}
    for key in _EXACT_KEYWORDS & clean.keys():
        if clean[key] != value[key]:
            raise UnusableTool(f"its {which} schema has invisible characters in {key}")
    return clean


def _fingerprint_tool(entry: dict[str, Any]) -> str:
    """Hash everything that describes a tool to people and models."""
    hints = entry.get("annotations")
    known_hints = (
        {hint: hints.get(hint) for hint in ANNOTATION_HINTS} if isinstance(hints, dict) else None
    )
    fields = {
        key: entry.get(key) for key in ("title", "description", "inputSchema", "outputSchema")
    }
    try:
        text = canonical_json({**fields, "name": entry.get("name"), "annotations": known_hints})
    except (ValueError, RecursionError) as error:
        raise UnusableTool("it is nested too deeply") from error
    return hashlib.sha256(text.encode()).hexdigest()


def _display_name(entry: Any) -> str:
    name = entry.get("name") if isinstance(entry, dict) else getattr(entry, "name", None)
    return shorten_name(strip_invisible(name)) if isinstance(name, str) and name else "(no name)"
