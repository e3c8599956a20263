"""Sentences about invalid settings for the operator, in place of pydantic's.

Those of pydantic name its types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from sshwarma.common.near_names import find_near_names
from sshwarma.common.validation_text import (
    MAX_SHOWN_VALUE_CHARACTERS,
    describe_validation_error,
)

_LIST_EXAMPLES: Final = {
    "command": '["npx", "-y"]',
    "hosts": '["world.example.org"]',
    "proxy_from": '["10.0.0.5"]',
}
TABLE_LISTS: Final = ("models", "mcp")
"""Settings that are lists of tables: `[[models]]`, `[[mcp]]`."""


def describe_settings_errors(
    error: ValidationError,
    schema: type[BaseModel],
    table_names: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Describe each invalid setting: `ssh.max_pending: must be more than 0 (got 0)`.

    Values of `[[models]]` and `[[mcp]]` are not repeated: one of them may be a key.

    Args:
        error: Error of the validation.
        schema: Model that was validated; close names are suggested from its fields.
        table_names: Names of the tables in `models` and `mcp`, in their order.
    """
    return [
        _describe_setting(detail, schema, table_names or {})
        for detail in error.errors(include_url=False)
    ]


def describe_value_error(detail: Mapping[str, Any], *, show_value: bool = True) -> str:
    """Describe one of pydantic's errors, without the name of the setting.

    `show_value` adds the value that was given, if it is short; a long one may be a key.
    """
    value = detail.get("input")
    is_shown = (
        show_value
        and isinstance(value, bool | int | float | str)
        and len(str(value)) <= MAX_SHOWN_VALUE_CHARACTERS
    )
    text = describe_validation_error(detail, in_file=True, show_value=is_shown)
    return _name_list(detail["loc"], text) if detail["type"] == "tuple_type" else text


def _name_list(path: Sequence[str | int], text: str) -> str:
    """Say in "must be a list" what such a list looks like, if the setting is known."""
    field = next((part for part in reversed(path) if isinstance(part, str)), "")
    if field in TABLE_LISTS:
        return text.replace("a list", f"tables headed [[{field}]]")
    example = _LIST_EXAMPLES.get(field)
    return text.replace("a list", f"a list, such as {example}") if example else text


def _describe_setting(
    detail: Mapping[str, Any], schema: type[BaseModel], table_names: Mapping[str, Sequence[str]]
) -> str:
    path = list(detail["loc"])
    place = ""
    in_table = len(path) > 1 and path[0] in TABLE_LISTS and isinstance(path[1], int)
    if in_table:
        place = f"{path[0]} {path[1] + 1}"
        names = table_names.get(path[0], ())
        if path[1] < len(names) and names[path[1]]:
            place += f" ({names[path[1]]})"
        path = path[2:]
        place += ": "
    field = ".".join(map(str, path))
    if detail["type"] == "missing":
        return f"{place}{field} is missing"
    if detail["type"] == "extra_forbidden":
        return f"{place}{field}: unknown setting{_suggest(detail['loc'], schema)}"
    text = describe_value_error(detail, show_value=not in_table or _is_number(detail["input"]))
    return f"{place}{field}: {text}" if field else f"{place}{text}"


RENAMED_SECTIONS: Final = {"finding": "search"}
"""Sections of the settings by the name that they had in older versions."""


def _suggest(path: Sequence[str | int], schema: type[BaseModel]) -> str:
    """Return `(did you mean NAME?)` if a setting of that section has a similar name."""
    for part in path[:-1]:
        if isinstance(part, str):
            section = _section_model(schema.model_fields[part].annotation)
            if section is None:
                return ""
            schema = section
    if len(path) == 1 and path[0] in RENAMED_SECTIONS:
        return f" (it is called {RENAMED_SECTIONS[str(path[0])]} now)"
    names = find_near_names(str(path[-1]), schema.model_fields)
    return f" (did you mean {names[0]}?)" if names else ""


def _section_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a field that is a table, or a list of tables."""
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
