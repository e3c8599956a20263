"""Forms and pages that a server asks people for, converted from the SDK's types.

A server asks during a call. `elicitation` asks the person.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import urlsplit

import mcp_types as types

from sshwarma.common.limits import (
    MAX_ELICITATION_FIELDS,
    MAX_SERVER_TEXT_CHARACTERS,
    MAX_SERVER_TITLE_CHARACTERS,
)
from sshwarma.mcp.client.link import ElicitationField, ElicitationRequest, LinkCallbacks
from sshwarma.mcp.client.sanitize import strip_invisible

current_call: ContextVar[object | None] = ContextVar("current_call", default=None)
"""Mark of the current task's call; servers of the newer protocol ask their questions in it."""

_LIMIT_KEYWORDS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


async def ask_user(callbacks: LinkCallbacks, params: Any) -> types.ElicitResult:
    """Ask the person behind the current call, and return their answer for the server.

    Declines what cannot be asked: a form with unsupported fields, or a page without a web address.
    """
    decline = types.ElicitResult(action="decline")
    message = strip_invisible(params.message)[:MAX_SERVER_TEXT_CHARACTERS]
    if isinstance(params, types.ElicitRequestURLParams):
        parts = urlsplit(params.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return decline
        answer = await callbacks.on_elicitation(
            ElicitationRequest(message, url=strip_invisible(params.url)[:1_000]),
            current_call.get(),
        )
        return decline if answer is None else types.ElicitResult(action="accept")
    fields = _parse_form(params.requested_schema)
    if fields is None:
        return decline
    answer = await callbacks.on_elicitation(ElicitationRequest(message, fields), current_call.get())
    return decline if answer is None else types.ElicitResult(action="accept", content=answer)


def _parse_form(schema: Any) -> tuple[ElicitationField, ...] | None:
    """Return the fields of a form, or None if the form is not supported."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) > MAX_ELICITATION_FIELDS:
        return None
    required = schema.get("required")
    fields = []
    for name, field in properties.items():
        if not isinstance(field, dict):
            return None
        kind = str(field.get("type", "string"))
        items = field.get("items") if isinstance(field.get("items"), dict) else None
        if kind == "array":
            kind = "choices"
        if kind not in ("string", "number", "integer", "boolean", "choices"):
            return None
        title = str(field.get("description") or field.get("title") or name)
        limits = {
            key: field[key] for key in _LIMIT_KEYWORDS if isinstance(field.get(key), (int, float))
        }
        fields.append(
            ElicitationField(
                name=str(name),
                kind=kind,
                title=strip_invisible(title)[:MAX_SERVER_TITLE_CHARACTERS],
                required=isinstance(required, list) and name in required,
                default=field.get("default"),
                options=_parse_options(items if kind == "choices" and items else field),
                limits=limits,
            )
        )
    return tuple(fields)


def _parse_options(schema: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    options = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(options, list):
        return tuple(
            (str(option["const"]), strip_invisible(str(option.get("title", option["const"]))))
            for option in options
            if isinstance(option, dict) and "const" in option
        )
    values = schema.get("enum")
    if not isinstance(values, list):
        return ()
    names = schema.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple(
        (str(value), strip_invisible(str(title)))
        for value, title in zip(values, titles, strict=True)
    )
