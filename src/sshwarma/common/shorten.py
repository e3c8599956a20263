"""Cuts of what a message repeats, so that no input makes it long."""

from __future__ import annotations

from sshwarma.common.limits import MAX_SHOWN_NAME_CHARACTERS, MAX_SHOWN_TEXT_CHARACTERS


def shorten_name(text: str) -> str:
    """Return the beginning of a name or a word that a message repeats."""
    return text[:MAX_SHOWN_NAME_CHARACTERS]


def shorten_text(text: str) -> str:
    """Return the beginning of a text, such as an error of another program."""
    return text[:MAX_SHOWN_TEXT_CHARACTERS]
