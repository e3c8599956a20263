"""The form of a tool, from its JSON Schema, and the arguments in what it sends.

What has no field of its own, such as nested objects, is typed as JSON. An optional field that is
left empty is not an argument.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Literal
from urllib.parse import quote

from sshwarma.tools.type_names import name_type, resolve_reference
from sshwarma.web.console.form_body import FormBody
from sshwarma.web.console.forms import (
    JSON_FIELD,
    MAX_RADIO_CHOICES,
    FormField,
    read_json,
    read_json_object,
)

MAX_FIELDS: Final = 60
"""Arguments that have a field; a schema is anybody's. More are given as one JSON object."""

MAX_CHOICES: Final = 200
"""Values that a list offers; of more, one is typed as JSON."""

MAX_HELP_CHARACTERS: Final = 600
"""Characters of a description that stand below a field."""

_SIMPLE: Final = ("string", "integer", "number", "boolean")

Kind = Literal["text", "number", "choice", "list", "json"]


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """A field of a tool's form.

    Attributes:
        name: of the argument; the field's own name has no spaces.
        choices: values by what the form shows.
        has_texts: of a list, whether its values are texts.
    """

    name: str
    kind: Kind
    field: FormField
    choices: Mapping[str, Any]
    has_texts: bool = True


def make_argument_fields(root: Mapping[str, Any]) -> list[ArgumentField]:
    """Return the fields of a schema's properties, the required ones first."""
    properties, required = root.get("properties"), root.get("required")
    if not isinstance(properties, dict):
        return []
    needed = {one for one in required if isinstance(one, str)} if isinstance(required, list) else ()
    fields = [
        _make_field(name, schema, root, required=name in needed)
        for name, schema in islice(properties.items(), MAX_FIELDS)
    ]
    return sorted(fields, key=lambda one: not one.field.required)


def _make_field(
    name: str, schema: Any, root: Mapping[str, Any], *, required: bool
) -> ArgumentField:
    known = _simplify(schema, root)
    choices = _list_choices(known)
    kind, has_texts = _find_kind(known, root, choices)
    widget: Any = {"text": "text", "number": "number", "list": "list", "json": "text"}.get(kind)
    if widget is None:
        widget = "radio" if len(choices) <= MAX_RADIO_CHOICES else "select"
    field = FormField(
        name=f"arg.{quote(name, safe='')}",
        label=name,
        help=_describe(schema, known, root, kind),
        widget=widget,
        required=required,
        choices=tuple(choices),
        low=_bound(known, "minimum"),
        high=_bound(known, "maximum"),
        rows=3 if kind == "json" else 2,
    )
    return ArgumentField(name, kind, field, choices, has_texts)


def _simplify(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without references, or {} for one with several types.

    Null beside one other type is left out.
    """
    for _ in range(4):  # deeper ones are typed as JSON
        schema = resolve_reference(schema, root)
        if not isinstance(schema, Mapping):
            return {}
        word = next((one for one in ("anyOf", "oneOf", "allOf") if one in schema), None)
        if word is None:
            break
        options = schema[word] if isinstance(schema[word], list) else []
        real = [option for option in options[:MAX_CHOICES] if option != {"type": "null"}]
        if len(real) != 1:
            return {}
        schema = real[0]
    kinds = schema.get("type")
    if isinstance(kinds, list):
        real = [kind for kind in kinds if kind != "null"]
        return {**schema, "type": real[0]} if len(real) == 1 else {}
    return schema if "$ref" not in schema else {}


def _list_choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of which one is chosen, by what is shown; none for any value."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is None and schema.get("type") == "boolean":
        values = [True, False]
    if not isinstance(values, list) or not 0 < len(values) <= MAX_CHOICES:
        return {}
    real = [value for value in values if value is not None]
    if not all(isinstance(value, str | int | float) and value != "" for value in real):
        return {}
    shown = {value if isinstance(value, str) else json.dumps(value): value for value in real}
    return shown if len(shown) == len(real) else {}


def _find_kind(
    schema: Mapping[str, Any], root: Mapping[str, Any], choices: Mapping[str, Any]
) -> tuple[Kind, bool]:
    if choices:
        return "choice", True
    match schema.get("type"):
        case "string" if "enum" not in schema:
            return "text", True
        case "integer" | "number" if "enum" not in schema:
            return "number", True
        case "array":
            item = _simplify(schema.get("items"), root)
            if item.get("type") in _SIMPLE:
                return "list", item["type"] == "string"
    return "json", True


def _describe(schema: Any, known: Mapping[str, Any], root: Mapping[str, Any], kind: Kind) -> str:
    outer = schema if isinstance(schema, Mapping) else {}
    text = next((one for one in (outer.get("description"), known.get("description")) if one), "")
    parts = [text[:MAX_HELP_CHARACTERS]] if isinstance(text, str) and text else []
    if kind == "json":
        parts.append(f"As JSON: {name_type(schema, root)[:MAX_HELP_CHARACTERS]}.")
    default = outer.get("default", known.get("default"))
    if default is not None:
        written = default if isinstance(default, str) else json.dumps(default)
        parts.append(f"If it is left out: {written[:MAX_HELP_CHARACTERS]}")
    return " ".join(parts)


def _bound(schema: Mapping[str, Any], word: str) -> str:
    bound = schema.get(word)
    is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
    return f"{bound:.15g}" if is_number else ""


def read_tool_form(fields: Sequence[ArgumentField], form: FormBody) -> dict[str, Any]:
    """Return the arguments that a form has sent.

    Raises:
        Invalid, TooLarge: if a field is not JSON that must be, or the JSON is too large.
    """
    if written := form.text(JSON_FIELD).strip():
        return read_json_object(written)
    arguments: dict[str, Any] = {}
    for one in fields:
        text = form.text(one.field.name).replace("\r\n", "\n")
        if text or (one.field.required and one.kind == "text"):
            arguments[one.name] = _read_value(one, text)
    return arguments


def _read_value(one: ArgumentField, text: str) -> Any:
    """Return the value of a field; the tool's check refuses what is of another type."""
    match one.kind:
        case "text":
            return text
        case "choice":
            return one.choices.get(text, text)
        case "number":
            return _read_plain(text)
        case "list":
            lines = [line for line in text.split("\n") if line]
            return lines if one.has_texts else [_read_plain(line) for line in lines]
        case "json":
            return read_json(text, one.name)


def _read_plain(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def fill_fields(
    fields: Sequence[ArgumentField], arguments: Mapping[str, Any]
) -> tuple[list[ArgumentField], str]:
    """Return fields with the arguments of a call in them, or all of these as JSON.

    The text is "" if every argument has a field that gives it again.
    """
    by_name = {one.name: one for one in fields}
    written: dict[str, str] = {}
    for name, value in arguments.items():
        one = by_name.get(name)
        text = _write_value(one, value) if one is not None else None
        if one is None or text is None or not _is_same(_try_to_read(one, text), value):
            return list(fields), json.dumps(arguments, ensure_ascii=False, indent=1)
        written[one.field.name] = text
    return put_texts(fields, written), ""


def put_texts(fields: Sequence[ArgumentField], texts: Mapping[str, str]) -> list[ArgumentField]:
    """Return fields with texts in them, by the names of the fields."""
    return [
        replace(one, field=replace(one.field, value=texts.get(one.field.name, "")))
        for one in fields
    ]


def _write_value(one: ArgumentField, value: Any) -> str | None:
    match one.kind:
        case "text":
            return value if isinstance(value, str) and (value or one.field.required) else None
        case "list" if isinstance(value, list) and value:
            texts = value if one.has_texts else [json.dumps(item) for item in value]
            return "\n".join(texts) if all(isinstance(item, str) for item in texts) else None
        case "json" | "number":
            return json.dumps(value, ensure_ascii=False, indent=1)
        case "choice":
            return next((shown for shown, of in one.choices.items() if _is_same(of, value)), None)
    return None


def _try_to_read(one: ArgumentField, text: str) -> Any:
    return _read_value(one, text.replace("\r\n", "\n"))


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, and of one type: `True == 1` otherwise."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
