"""What is posted to an incoming hook, as a text for its room."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qs

from sshwarma.common.json_guard import JsonTooLarge, load_json
from sshwarma.common.validation_text import describe_json_error
from sshwarma.hooks.records import IncomingSource
from sshwarma.hooks.templates import fill_text
from sshwarma.world.errors import Invalid, TooLarge

FORM_TYPE: Final = "application/x-www-form-urlencoded"

MAX_INDENTED_CHARACTERS: Final = 2_000
"""Maximum length of JSON that is said with indentation: people hardly read a longer one."""

_TEXT_NAMES: Final = ("text", "content", "message")
"""Names under which services of chat have the text of a post."""


def read_document(body: bytes, media_type: str) -> Any:
    """Return what was posted: JSON, the fields of a form, or a text.

    The field `payload` of a form is JSON, as Slack and GitHub have it.

    Raises:
        Invalid: if it is not what its media type says.
        TooLarge: if it has too many values.
    """
    if media_type == FORM_TYPE:
        fields = {
            name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()
        }
        return _parse(fields["payload"].encode()) if "payload" in fields else fields
    if media_type == "application/json" or media_type.endswith("+json"):
        return _parse(body)
    return {"text": body.decode(errors="replace")}


def _parse(body: bytes) -> Any:
    try:
        return load_json(body)
    except JsonTooLarge as error:
        raise TooLarge(f"The body {error}.") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"The body is not JSON: {describe_json_error(error)}.") from error


def make_text(source: IncomingSource, document: Any) -> str:
    """Return the text for the room: by the template, else that of the document.

    Raises:
        Invalid: if it is empty.
        TooLarge: if it is longer than any line may be.
    """
    text = fill_text(source.template, document) if source.template else _find_text(document)
    if not text.strip():
        raise Invalid("There is no text.", hint='Post {"text": "…"}, or give the hook a template.')
    return text


def _find_text(document: Any) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, dict):
        for name in _TEXT_NAMES:
            if isinstance(document.get(name), str):
                return str(document[name])
    written = json.dumps(document, ensure_ascii=False)
    if len(written) <= MAX_INDENTED_CHARACTERS:  # indentation grows with the square of the depth
        written = json.dumps(document, ensure_ascii=False, indent=2)
    return f"```json\n{written}\n```"
