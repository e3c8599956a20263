"""JSON Schemas for all clients: values that fit canonical JSON (RFC 8785).

Some clients put the list of tools into canonical form and fail over one number that a double cannot
hold exactly.
"""

from __future__ import annotations

import math
from typing import Any

from sshwarma.common.limits import MAX_EXACT_INTEGER

_DROPPED = object()


def make_exact_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without values that canonical JSON cannot hold.

    Those are integers beyond MAX_EXACT_INTEGER, NaN, infinities, and texts with half a surrogate
    pair. A keyword with such a value is left out, of a list its items; the provider of the tool
    still checks them.
    """
    exact = _make_exact(schema)
    return exact if isinstance(exact, dict) else {}


def _make_exact(value: Any) -> Any:
    """Return a value without what is not exact, or _DROPPED."""
    match value:
        case dict():
            pairs = ((key, _make_exact(child)) for key, child in value.items())
            return {key: child for key, child in pairs if child is not _DROPPED and _is_text(key)}
        case list() | tuple():
            items = [item for item in map(_make_exact, value) if item is not _DROPPED]
            return items if items or not value else _DROPPED
        case bool() | None:
            return value
        case int():
            return value if abs(value) <= MAX_EXACT_INTEGER else _DROPPED
        case float():
            # A large float without a fraction is read as an integer again.
            is_exact = math.isfinite(value) and (
                abs(value) <= MAX_EXACT_INTEGER or not value.is_integer() or abs(value) >= 1e21
            )
            return value if is_exact else _DROPPED
        case str():
            return value if _is_text(value) else _DROPPED
        case _:
            return _DROPPED


def _is_text(value: Any) -> bool:
    """Return whether a value is a text that UTF-8 can hold."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
