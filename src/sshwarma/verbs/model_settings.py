"""Validation of model settings that owners type; what resembles a key is refused."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import ValidationError

from sshwarma.common.secret_detection import has_key_prefix, looks_like_key
from sshwarma.common.validation_text import describe_validation_error
from sshwarma.models.roster import RosterEntry
from sshwarma.settings import ModelSettings
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.reader import TextByReader

_KEYS_STAY_OUT: Final = (
    "A key does not belong in {}. Put it into a variable of the server's environment, and give its"
    " name {}; or into a file of mode 0600, and give its path {}."
)
KEYS_STAY_OUT: Final = TextByReader(
    _KEYS_STAY_OUT.format("a line", "with --key-env", "with --key-file"),
    _KEYS_STAY_OUT.format("a call", "as key_env", "as key_file"),
)

FREE_FIELDS: Final = ("prompt", "model", "key_file", "base_url")
"""Fields that may contain long random words; they have rules of their own."""


def settings_by_verb(entry: RosterEntry, agent: Agent) -> ModelSettings:
    """Return the settings of a model that was added by verb.

    Raises:
        Conflict: if the model comes from the settings file or is built in.
    """
    if entry.origin != "verb" or entry.settings is None:
        hint = "It is set in sshwarma.toml, on the server." if entry.origin == "file" else ""
        origin = "defined in the settings file" if entry.origin == "file" else "built in"
        raise Conflict(f"{agent.name} is {origin} and cannot be changed here.", hint=hint)
    return entry.settings


def keep_keys_out(values: dict[str, str | None]) -> None:
    """Refuse values that look like a key; the message does not repeat them.

    Raises:
        Invalid: with the name of the field.
    """
    for name, word in values.items():
        if word is None:
            continue
        if has_key_prefix(word) if name in FREE_FIELDS else looks_like_key(word):
            raise Invalid(f"The {name} you gave looks like a key.", hint=KEYS_STAY_OUT)


def validate_settings(
    caller: Caller, values: dict[str, Any], set_to: str | None = None
) -> ModelSettings:
    """Validate the settings of a model.

    `set_to` is the typed value that an error points at: "" the end of the line, None the first
    value that is wrong.

    Raises:
        Invalid: with the span of the word that is wrong.
    """
    try:
        return ModelSettings.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        message = "; ".join(
            f"{detail['loc'][0]}: {describe_validation_error(detail)}"
            if detail["loc"]
            else describe_validation_error(detail)
            for detail in details
        )
        first_value = str(values.get(str(details[0]["loc"][0]), "")) if details[0]["loc"] else ""
        value = first_value if set_to is None else set_to
        secret = has_key_prefix(value) or looks_like_key(value)
        raise Invalid(f"{message}.", span=None if secret else place_of(caller, value)) from None


def place_of(caller: Caller, word: str) -> tuple[int, int] | None:
    """Return the span of a word in the typed line, or None; for "" the line's end."""
    if not word:
        return len(caller.line), len(caller.line)
    match = re.search(rf"(?<!\S){re.escape(word)}(?!\S)", caller.line)
    return match.span() if match else None


def strip_quotes(text: str) -> str:
    """Remove the quotes of a text that is one quoted phrase."""
    quote = text[:1]
    if quote in ("'", '"') and len(text) > 1 and text.find(quote, 1) == len(text) - 1:
        return text[1:-1]
    return text
