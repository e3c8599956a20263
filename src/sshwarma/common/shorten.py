"""Cuts of what a message repeats, so that no input makes it long."""

from __future__ import annotations

from collections.abc import Sequence

from sshwarma.common.limits import MAX_SHOWN_NAME_CHARACTERS, MAX_SHOWN_TEXT_CHARACTERS


def shorten_name(text: str) -> str:
    """Return the beginning of a name or a word that a message repeats."""
    return text[:MAX_SHOWN_NAME_CHARACTERS]


def shorten_text(text: str) -> str:
    """Return the beginning of a text, such as an error of another program."""
    return text[:MAX_SHOWN_TEXT_CHARACTERS]


def join_with_rest(
    names: Sequence[str], limit: int, *, total: int = 0, separator: str = ", "
) -> str:
    """Join the first names and count the others: "dice, cards and 3 more".

    Args:
        names: the names, or the first ones of them.
        limit: how many are named.
        total: how many there are, if `names` are only the first.
        separator: what stands between two names; before the count only if it is not a comma.
    """
    shown = names[:limit]
    text = separator.join(shown)
    rest = count_rest(max(total, len(names)) - len(shown))
    if not rest:
        return text
    return f"{text}{' ' if separator == ', ' else separator}{rest}"


def count_rest(count: int, noun: str = "") -> str:
    """Return "and 3 more", with a noun "and 3 more lines"; "" if nothing is left out."""
    if count <= 0:
        return ""
    named = f" {noun}{'' if count == 1 else 's'}" if noun else ""
    return f"and {count} more{named}"


def flatten_text(text: str, limit: int) -> str:
    """Join a text to one line of at most `limit` characters."""
    flat = " ".join(text[: 20 * limit + 1].split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
