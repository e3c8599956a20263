"""Texts of JSON Schemas, which repeat what their readers know."""

from __future__ import annotations

import re
from typing import Any, Final

_ATTRIBUTES: Final = "Attributes:"
_ATTRIBUTE: Final = re.compile(r" {4}(\w+(?:, \w+)*): +(.*)")


def without_texts(schema: Any, *keywords: str) -> Any:
    """Return a schema without the texts of some keywords, such as `title`.

    A property may have the name of a keyword: then its value is a schema, and stays.
    """
    if isinstance(schema, list):
        return [without_texts(child, *keywords) for child in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_texts(value, *keywords)
        for key, value in schema.items()
        if key not in keywords or not isinstance(value, str)
    }


_JSON_WORDS: Final = {"None": "null", "True": "true", "False": "false"}


def describe_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Move what a description, a docstring, says of properties to each of them.

    Values are spelled as in JSON.
    """
    description = _spell_as_json(schema.get("description", ""))
    before, found, after = description.partition(f"\n{_ATTRIBUTES}\n")
    if not found:
        return schema | ({"description": description} if description else {})
    texts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in after.splitlines():
        if (match := _ATTRIBUTE.fullmatch(line)) is not None:
            lines = [match[2]]
            texts |= dict.fromkeys(match[1].split(", "), lines)
        elif line.strip():
            lines.append(line.strip())
    properties = {
        name: one | ({"description": " ".join(texts[name])} if name in texts else {})
        for name, one in schema.get("properties", {}).items()
    }
    return schema | {"description": before.strip(), "properties": properties}


def _spell_as_json(text: str) -> str:
    return re.sub(r"\b(None|True|False)\b", lambda match: _JSON_WORDS[match[1]], text)
