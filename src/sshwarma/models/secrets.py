"""Keys of model providers: read from the environment or a file of one's own, shown to nobody."""

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
"""The variable a kind's key is in unless the settings name another. Other kinds need no key, and
are sent none that was not named for them."""


class Secret:
    """A key. It is shown as dots, whatever prints it; `reveal` is for the one who sends it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def hide(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._text, "•••") if self._text else text

    def __repr__(self) -> str:
        return "Secret(•••)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a key is not to be stored")


def describe_key_location(model: ModelSettings) -> str:
    """Where the key of a model is looked for, for people; empty if it needs none."""
    if model.key_file is not None:
        return f"the file {model.key_file}"
    variable = model.key_env or DEFAULT_KEY_VARIABLES.get(model.kind, "")
    return f"the environment variable {variable}" if variable else ""


def read_key(model: ModelSettings, environ: Mapping[str, str]) -> Secret:
    """The key of a model; an empty one if it needs none. Reads a file: not for the event loop.

    Raises:
        BackendError: if there is none where it should be, or others could have read it.
    """
    where = describe_key_location(model)
    if model.key_file is not None:
        text = _read_private_file(model.key_file, where)
    else:
        text = environ.get(model.key_env or DEFAULT_KEY_VARIABLES.get(model.kind, ""), "")
    text = text.strip()
    if where and not text:
        raise BackendError(f"there is no key in {where}")
    if not all(" " < letter <= "~" for letter in text):
        raise BackendError(f"what is in {where} is no key: it is more than one printable word")
    return Secret(text)


def _read_private_file(path: Path, where: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BackendError(f"cannot read {where}: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise BackendError(f"cannot read {where}: it is not a file")
        if found.st_mode & 0o077:
            raise BackendError(f"others may read {where}: chmod 600 {path}")
        return os.read(descriptor, MAX_KEY_FILE_BYTES).decode("ascii", "replace")
    finally:
        os.close(descriptor)
