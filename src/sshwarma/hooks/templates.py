"""Templates of hooks: `{path.to.value}` stands for a value of a JSON document.

A path has names, and numbers for the items of lists. What the document lacks is empty. Other braces
stay as they are.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from sshwarma.common.limits import MAX_HOOK_TEMPLATE_CHARACTERS
from sshwarma.world.errors import Invalid, too_long_error

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")


def check_template(text: str) -> str:
    """Return a template.

    Raises:
        Invalid: if it is longer than MAX_HOOK_TEMPLATE_CHARACTERS.
    """
    if len(text) > MAX_HOOK_TEMPLATE_CHARACTERS:
        raise too_long_error("template", len(text), MAX_HOOK_TEMPLATE_CHARACTERS, "characters")
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
    """Return a template with the values of a document."""
    return _PLACEHOLDER.sub(lambda match: _write(_find(document, match[1])), template)


def fill_body(template: str, document: object) -> Any:
    """Return the JSON of a template with the values of a document.

    A text that is one placeholder becomes the value itself, of any type.
    """
    return _fill(json.loads(template), document)


def _fill(part: Any, document: object) -> Any:
    if isinstance(part, dict):
        return {name: _fill(value, document) for name, value in part.items()}
    if isinstance(part, list):
        return [_fill(value, document) for value in part]
    if not isinstance(part, str):
        return part
    whole = _PLACEHOLDER.fullmatch(part)
    return _find(document, whole[1]) if whole else fill_text(part, document)


def _find(document: object, path: str) -> object:
    value = document
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _write(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
