"""What a server says it offers, made into what can be offered here: mended where that is safe,
refused where it is not, tool by tool, and with a word on each. One bad tool never hides the others.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]

NAME_CHARACTERS: Final = 64
DESCRIPTION_BYTES: Final = 2_048
SCHEMA_BYTES: Final = 65_536
SCHEMA_DEPTH: Final = 32
REFUSED_SHOWN: Final = 200

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

_OUTSIDE_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_POINTERS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_PROSE: Final = ("description", "title")


class Unusable(Exception):
    """Why a tool is refused."""


@dataclass(frozen=True, slots=True)
class Bad:
    """In place of a tool that is refused before it is looked at."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool as it is offered here. `remote` is the server's name for it, `fingerprint` that of all
    the server said of it before mending, `mended` what was mended."""

    name: str
    remote: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any]
    fingerprint: str
    mended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server in its order, and those refused: the name it gave, and why."""

    tools: tuple[Offered, ...] = ()
    refused: tuple[tuple[str, str], ...] = field(default=())


def mend(raw: list[Any], most: int, known: Mapping[str, Offered] | None = None) -> Listing:
    """A listing of what a server said, of which the first `most` tools are taken. `known` are tools
    that were mended before, by fingerprint: most listings say again what the last one said."""
    tools: list[Offered] = []
    refused: list[tuple[str, str]] = []
    taken: dict[str, str] = {}
    for said in raw:
        try:
            if len(tools) >= most:
                raise Unusable(f"only the first {most} tools are taken")
            tool = _mended(said, known or {})
            # As models see them, `a.b` and `a_b` are one name.
            alike = tool.name.replace(".", "_")
            if alike in taken:
                raise Unusable(f"it would have the same name as {clean(taken[alike])[:80]}")
            taken[alike] = tool.remote
        except Unusable as error:
            refused.append((_name_of(said), str(error)))
        else:
            tools.append(tool)
    shown = refused[:REFUSED_SHOWN]
    if len(refused) > len(shown):
        shown.append(("…", f"and {len(refused) - len(shown)} more"))
    return Listing(tuple(tools), tuple(shown))


def clean(text: str) -> str:
    """The text without what cannot be seen: control, format and bidirectional characters."""
    return "".join(
        char for char in text if char in "\n\t" or not unicodedata.category(char).startswith("C")
    )


def canonical(value: Any) -> str:
    """JSON of which equal values have equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _mended(said: Any, before: Mapping[str, Offered]) -> Offered:
    if isinstance(said, Bad):
        raise Unusable(said.why)
    if not isinstance(said, dict):
        raise Unusable("it is not an object")
    remote = said.get("name")
    if not isinstance(remote, str) or not remote:
        raise Unusable("it has no name")
    if len(remote) > 1_000:
        raise Unusable(f"its name has {len(remote)} characters")
    fingerprint = _fingerprint(said)
    if fingerprint in before:
        return before[fingerprint]
    notes: list[str] = []
    name = _name(remote, notes)
    description = _prose(said.get("description"), "its description", notes)
    title = _prose(said.get("title"), "its title", notes)[:200]
    input_schema = _input_schema(said.get("inputSchema"), notes)
    output_schema = _output_schema(said.get("outputSchema"), notes)
    hints = said.get("annotations")
    annotations = {
        hint: value
        for hint in HINTS
        if isinstance(hints, dict) and isinstance(value := hints.get(hint), bool)
    }
    return Offered(
        name,
        remote,
        title,
        description,
        input_schema,
        output_schema,
        annotations,
        fingerprint,
        tuple(notes),
    )


def _name(remote: str, notes: list[str]) -> str:
    name = _OUTSIDE_NAME.sub("_", unicodedata.normalize("NFKC", remote)).lstrip("_.-")
    digest = hashlib.sha256(remote.encode("utf-8", "surrogatepass")).hexdigest()
    if not name.strip("_"):
        name = f"tool_{digest[:8]}"
    if len(name) > NAME_CHARACTERS:
        name = f"{name[: NAME_CHARACTERS - 9]}_{digest[:8]}"
    if name != remote:
        notes.append(f"it calls itself {clean(remote)[:120]!r}, which cannot be a name here")
    return name


def _prose(text: Any, what: str, notes: list[str]) -> str:
    if not isinstance(text, str):
        if text is not None:
            notes.append(f"{what} was no text")
        return ""
    seen = clean(text)
    if seen != text:
        notes.append(f"{what} had {len(text) - len(seen)} characters that cannot be seen")
    kept = seen.strip().encode()
    if len(kept) > DESCRIPTION_BYTES:
        notes.append(f"{what} had {len(kept)} bytes; the first {DESCRIPTION_BYTES} are kept")
        return kept[:DESCRIPTION_BYTES].decode("utf-8", "ignore") + "…"
    return seen.strip()


def _input_schema(schema: Any, notes: list[str]) -> dict[str, Any]:
    if schema is None:
        notes.append("it does not say what it takes; anything is passed on")
        return {"type": "object"}
    if not isinstance(schema, dict):
        raise Unusable("its input schema is not an object")
    if "type" not in schema:
        notes.append("its input schema did not say that it is one of an object")
        schema = {**schema, "type": "object"}
    if schema["type"] != "object":
        raise Unusable(f"its input schema is of type {ascii(schema['type'])[:40]}, not object")
    return _checked(schema, "input", notes)


def _output_schema(schema: Any, notes: list[str]) -> dict[str, Any] | None:
    if schema is None:
        return None
    try:
        if not isinstance(schema, dict):
            raise Unusable("its output schema is not an object")
        return _checked(schema, "output", notes)
    except Unusable as error:
        notes.append(f"{error}; it was left out")
        return None


def _checked(schema: dict[str, Any], which: str, notes: list[str]) -> dict[str, Any]:
    """The schema if it is one, small enough, and complete in itself."""
    try:
        size = len(canonical(schema))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"its {which} schema is nested too deep") from error
    if size > SCHEMA_BYTES:
        raise Unusable(f"its {which} schema has {size} bytes; the most is {SCHEMA_BYTES}")
    for depth, key, value in _walk(schema):
        if depth > SCHEMA_DEPTH:
            raise Unusable(f"its {which} schema is nested over {SCHEMA_DEPTH} deep")
        if key in _POINTERS and isinstance(value, str) and not value.startswith("#"):
            raise Unusable(f"its {which} schema points outside of itself: {clean(value)[:80]}")
        if clean(key) != key:
            raise Unusable(f"its {which} schema has a name with characters that cannot be seen")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Unusable(f"its {which} schema is none: {clean(error.message)[:120]}") from error
    seen = _seen(schema)
    if seen != schema:
        notes.append(f"texts in its {which} schema had characters that cannot be seen")
    return seen if isinstance(seen, dict) else schema


def _walk(value: Any) -> Iterator[tuple[int, str, Any]]:
    """Every key of every object inside, with its depth and value."""
    waiting: list[tuple[int, Any]] = [(1, value)]
    while waiting:
        depth, here = waiting.pop()
        if isinstance(here, dict):
            for key, below in here.items():
                yield depth, str(key), below
                waiting.append((depth + 1, below))
        elif isinstance(here, list):
            waiting += [(depth + 1, below) for below in here]


def _seen(value: Any) -> Any:
    """A schema with its prose cleaned."""
    if isinstance(value, dict):
        return {
            key: clean(below) if key in _PROSE and isinstance(below, str) else _seen(below)
            for key, below in value.items()
        }
    return [_seen(below) for below in value] if isinstance(value, list) else value


def _fingerprint(said: dict[str, Any]) -> str:
    """Of everything that tells people and models what a tool is."""
    hints = said.get("annotations")
    known = {hint: hints.get(hint) for hint in HINTS} if isinstance(hints, dict) else None
    told = {key: said.get(key) for key in ("title", "description", "inputSchema", "outputSchema")}
    try:
        text = canonical({**told, "name": said.get("name"), "annotations": known})
    except (ValueError, RecursionError) as error:
        raise Unusable("it is nested too deep") from error
    return hashlib.sha256(text.encode()).hexdigest()


def _name_of(said: Any) -> str:
    name = said.get("name") if isinstance(said, dict) else getattr(said, "name", None)
    return clean(name)[:80] if isinstance(name, str) and name else "(no name)"
