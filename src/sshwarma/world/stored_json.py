"""JSON objects in columns: metadata of things and rows.

Imports only constants and the standard library, because `report_worker` imports it.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, TypeVar

from sshwarma.common.shorten import shorten_name
from sshwarma.common.visible_nul import replace_nul

T = TypeVar("T")


class UnreadableError(ValueError):
    """A stored value that no version writes. Its message says which: "its role is 5"."""


_NUL: Final = "\\u0000"
"""A NUL in JSON. PostgreSQL reads no text with one, nor with a number that is not finite."""


def dump_metadata(value: dict[str, Any] | None) -> str | None:
    """Return JSON as it is stored: compact, with its keys in their order.

    A NUL becomes visible, and null stands for a number that is not finite.
    """
    if not value:
        return None
    try:
        text = _dump(value)
    except ValueError:
        return _dump(_make_readable(value))
    return _dump(_make_readable(value)) if _NUL in text else text


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _make_readable(value: Any) -> Any:
    if isinstance(value, str):
        return replace_nul(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_make_readable(key): _make_readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_readable(item) for item in value]
    return value


def read_object(text: str | None) -> dict[str, Any]:
    """Return a stored object; an empty one for no text.

    Raises:
        UnreadableError: if it is not a JSON object, or has too many levels or digits.
    """
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnreadableError("its metadata is not JSON, or too deep or long") from error
    if not isinstance(value, dict):
        raise UnreadableError("its metadata is not a JSON object")
    return value


def read_object_or_none(text: str | None) -> dict[str, Any] | None:
    """Return a stored object; None if it cannot be read."""
    try:
        return read_object(text)
    except UnreadableError:
        return None


def take_field(stored: dict[str, Any], key: str, kind: type[T], default: T) -> T:
    """Return a field of an object, or its default if it has none.

    Raises:
        UnreadableError: if it has another type.
    """
    value = stored.get(key, default)
    if not isinstance(value, kind):
        raise UnreadableError(f"its {key} is {shorten_name(repr(value))}")
    return value


def take_word(stored: dict[str, Any], key: str, words: tuple[T, ...], default: T) -> T:
    """Return a field that is one of some words, or the default without one.

    Raises:
        UnreadableError: if it is another.
    """
    value = stored.get(key, default)
    for word in words:
        if value == word:
            return word
    raise UnreadableError(f"its {key} is {shorten_name(repr(value))}")


def take_words(stored: dict[str, Any], key: str) -> frozenset[str] | None:
    """Return a list of texts, or None if the object has none.

    Raises:
        UnreadableError: if it is something else.
    """
    if stored.get(key) is None:
        return None
    words = take_field(stored, key, list, [])
    if not all(isinstance(word, str) for word in words):
        raise UnreadableError(f"its {key} is {shorten_name(repr(words))}")
    return frozenset(words)
