"""The form of a verb, from its declaration, and the arguments in what it sends.

An optional field that is left empty is not an argument: it is neither "" nor an empty list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sshwarma.common.json_guard import JsonTooLarge, load_json
from sshwarma.common.validation_text import describe_json_error
from sshwarma.verbs.registry import Parameter, Verb
from sshwarma.web.console.form_body import FormBody
from sshwarma.world.errors import Invalid, TooLarge

JSON_FIELD: Final = "as-json"
"""The name of the field that has all arguments as one JSON object."""

EMPTY_FIELD: Final = "as-given"
"""The name of a field that names a text field whose value is an argument also if it is empty."""

MAX_RADIO_CHOICES: Final = 4
"""Choices that are all shown; more of them are a list that opens."""

Widget = Literal["line", "text", "number", "check", "radio", "select", "list"]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form.

    Attributes:
        widget: what it is typed into; `list` is a text with one value a line.
        value: what stands in it at first.
        completes: whether the server lists values for what is typed.
        low, high: the bounds of a number; "" for none.
        rows: of a text.
        language: of a text that is code; "" for others.
    """

    name: str
    label: str
    help: str
    widget: Widget
    required: bool
    choices: tuple[str, ...] = ()
    value: str = ""
    completes: bool = False
    low: str = ""
    high: str = ""
    rows: int = 6
    language: str = ""


def make_fields(verb: Verb, given: Mapping[str, str]) -> list[FormField]:
    """Return the fields of a verb's form; `given` are the values that stand in them."""
    properties = verb.input_schema["properties"]
    return [
        _make_field(parameter, properties[parameter.name], given.get(parameter.name, ""))
        for parameter in verb.parameters
    ]


def _make_field(parameter: Parameter, schema: Mapping[str, Any], value: str) -> FormField:
    numbers = [one for one in _options(schema) if one.get("type") in ("integer", "number")]
    bounds = numbers[0] if numbers else {}
    values = tuple(value for one in _options(schema) for value in one.get("enum", ()))
    choices = parameter.choices or values
    return FormField(
        name=parameter.name,
        label=parameter.name.strip("_").replace("_", " "),
        help=parameter.help,
        widget="select"
        if values and not parameter.choices
        else _choose_widget(parameter, is_number=bool(numbers)),
        required=parameter.required,
        choices=choices,
        value=value,
        completes=parameter.arg.complete is not None,
        low=str(bounds.get("minimum", "")),
        high=str(bounds.get("maximum", "")),
        language=parameter.arg.language,
    )


def _choose_widget(parameter: Parameter, *, is_number: bool) -> Widget:
    if parameter.boolean:
        return "check"
    if parameter.many or (parameter.arg.rest and not parameter.is_text):
        return "list"
    if parameter.choices:
        return "radio" if len(parameter.choices) <= MAX_RADIO_CHOICES else "select"
    if is_number and not parameter.arg.words:
        return "number"
    return "text" if parameter.arg.kind in ("text", "command") else "line"


def _options(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(schema.get("anyOf", (schema,)))


def read_arguments(verb: Verb, form: FormBody) -> dict[str, Any]:
    """Return the arguments that a form has sent.

    Raises:
        Invalid: if its JSON is no object of arguments.
    """
    if written := form.text(JSON_FIELD).strip():
        return read_json_object(written)
    properties = verb.input_schema["properties"]
    arguments: dict[str, Any] = {}
    for parameter in verb.parameters:
        values = form.fields.get(parameter.name, [])
        if not (form.is_exact and parameter.is_text):
            values = [value.replace("\r\n", "\n") for value in values]
        if parameter.boolean:
            if values:
                arguments[parameter.name] = True
            continue
        kinds = {one.get("type") for one in _options(properties[parameter.name])}
        if "array" in kinds:
            lines = [line for value in values for line in value.split("\n") if line]
            if lines:
                arguments[parameter.name] = lines
        elif values and (values[0] or (parameter.required and parameter.is_text)):
            value = values[0]
            is_text = bool(kinds & {"string", None})
            arguments[parameter.name] = value if is_text else _read_value(value)
        elif values and parameter.name in form.fields.get(EMPTY_FIELD, ()):
            arguments[parameter.name] = ""
    if form.file_name and "path" in properties:
        arguments["path"] = _add_file_name(arguments.get("path", ""), form.file_name)
    return arguments


def _add_file_name(path: str, name: str) -> str:
    """Return the path of an uploaded file: a folder, or nothing, gets its name."""
    return f"{path}{name}" if not path or path.endswith("/") else path


def _read_value(text: str) -> Any:
    """Return a number or truth value; the check of arguments refuses what is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_json_object(text: str) -> dict[str, Any]:
    """Return the arguments that a text has as one JSON object.

    Raises:
        Invalid, TooLarge: if it is not one, or is too large.
    """
    found = read_json(text)
    if not isinstance(found, dict):
        raise Invalid("The JSON must be an object of arguments by name.")
    return found


def read_json(text: str, what: str = "This") -> Any:
    """Return the value of a JSON text; `what` begins the sentence that refuses it.

    Raises:
        Invalid, TooLarge: if it is not JSON, or is too large.
    """
    try:
        return load_json(text)
    except JsonTooLarge as error:
        raise TooLarge(f"The JSON {error}.") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{what} is not JSON: {describe_json_error(error)}.") from error
