"""Templates of hooks: `{path.to.value}` stands for a value of a JSON document.

A path has names, and numbers for the items of lists. What the document lacks is empty. Other braces
stay as they are.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from sshwarma.common.limits import (
    MAX_HOOK_BODY_BYTES,
    MAX_HOOK_PLACEHOLDERS,
    MAX_HOOK_TEMPLATE_CHARACTERS,
)
from sshwarma.common.messages import with_limit
from sshwarma.world.errors import Invalid, TooLarge, too_long_error

MAX_INDEX_DIGITS: Final = 9
"""Digits of the number of an item: Python refuses to read very long ones."""

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")


def check_template(text: str) -> str:
    """Return a template.

    Raises:
        Invalid: if it is longer than MAX_HOOK_TEMPLATE_CHARACTERS, or has more than
            MAX_HOOK_PLACEHOLDERS.
    """
    if len(text) > MAX_HOOK_TEMPLATE_CHARACTERS:
        raise too_long_error("template", len(text), MAX_HOOK_TEMPLATE_CHARACTERS, "characters")
    if len(_PLACEHOLDER.findall(text)) > MAX_HOOK_PLACEHOLDERS:
        raise Invalid(f"template: {with_limit('too many values', MAX_HOOK_PLACEHOLDERS)}.")
    return text


def check_body(text: str) -> str:
    """Return the template of a body: JSON whose texts are templates.

    Raises:
        Invalid: if it is no JSON object, or too long.
    """
    check_template(text)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"body: is no JSON: {error}.", hint='For example: {"text": "{speaker.name}: {text}"}'
        ) from error
    if not isinstance(parsed, dict):
        raise Invalid("body: must be a JSON object.")
    return text


def fill_text(template: str, document: object) -> str:
    """Return a template with the values of a document.

    Raises:
        TooLarge: if that has more than MAX_HOOK_BODY_BYTES characters.
    """
    return _Filling(document).fill_text(template)


def fill_body(template: str, document: object) -> Any:
    """Return the JSON of a template with the values of a document.

    A text that is one placeholder becomes the value itself, of any type.

    Raises:
        TooLarge: if its texts have more than MAX_HOOK_BODY_BYTES characters.
    """
    return _Filling(document).fill(json.loads(template))


class _Filling:
    """A document whose values are put into a template, up to a limit."""

    def __init__(self, document: object) -> None:
        self._document = document
        self._left = MAX_HOOK_BODY_BYTES
        self._written: dict[str, str] = {}  # by path: a template may have it often

    def fill(self, part: Any) -> Any:
        """Return JSON with values in its texts."""
        if isinstance(part, dict):
            return {name: self.fill(value) for name, value in part.items()}
        if isinstance(part, list):
            return [self.fill(value) for value in part]
        if not isinstance(part, str):
            return part
        whole = _PLACEHOLDER.fullmatch(part)
        if whole is None:
            return self.fill_text(part)
        self._write(whole[1])
        return _find(self._document, whole[1])

    def fill_text(self, template: str) -> str:
        """Return a text with values."""
        return _PLACEHOLDER.sub(lambda match: self._write(match[1]), template)

    def _write(self, path: str) -> str:
        if path not in self._written:
            self._written[path] = _write(_find(self._document, path))
        text = self._written[path]
        self._left -= len(text)
        if self._left < 0:
            limit = with_limit("The text has too many characters", MAX_HOOK_BODY_BYTES)
            raise TooLarge(f"{limit}.", hint="Use fewer or smaller values in the template.")
        return text


def _find(document: object, path: str) -> object:
    value = document
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and len(name) <= MAX_INDEX_DIGITS:
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


def _write(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
