"""Keys of model providers, from the environment or a private file; never shown."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sshwarma.common.limits import MAX_KEY_FILE_BYTES
from sshwarma.models.backend import BackendError
from sshwarma.settings import ModelKind, ModelSettings

DEFAULT_KEY_VARIABLES: Final[Mapping[ModelKind, str]] = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GEMINI_API_KEY",
}
"""Variable of each kind's key unless the settings name another. Other kinds need no key and get
one only if the settings name it."""


class Secret:
    """A key that prints as dots; call `reveal` only to send it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the key itself, for a request to the provider."""
        return self._text

    def hide(self, text: str) -> str:
        """Replace the key in a text with dots."""
        return text.replace(self._text, "•••") if self._text else text

    def __repr__(self) -> str:
        return "Secret(•••)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a key must not be stored")


def describe_key_location(model: ModelSettings) -> str:
    """Describe where a model's key is read from; empty if it needs none."""
    if model.key_file is not None:
        return f"the file {model.key_file}"
    variable = model.key_env or DEFAULT_KEY_VARIABLES.get(model.kind, "")
    return f"the environment variable {variable}" if variable else ""


def read_key(model: ModelSettings, environ: Mapping[str, str]) -> Secret:
    """Read the key of a model; an empty one if it needs none.

    May read a file, so do not call it on the event loop.

    Raises:
        BackendError: if the key is missing or invalid, or other users can access its file.
    """
    location = describe_key_location(model)
    if model.key_file is not None:
        text = _read_private_file(model.key_file, location)
    else:
        text = environ.get(model.key_env or DEFAULT_KEY_VARIABLES.get(model.kind, ""), "")
    text = text.strip()
    if location and not text:
        raise BackendError(f"no key in {location}")
    if not all(" " < letter <= "~" for letter in text):
        raise BackendError(f"{location} does not hold a key: it must be one printable word")
    return Secret(text)


def _read_private_file(path: Path, source: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BackendError(f"cannot read {source}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BackendError(f"cannot read {source}: it is not a file")
        if status.st_mode & 0o077:
            raise BackendError(f"other users can access {source}: chmod 600 {path}")
        return os.read(descriptor, MAX_KEY_FILE_BYTES).decode("ascii", "replace")
    finally:
        os.close(descriptor)
