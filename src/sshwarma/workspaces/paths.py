"""Paths in a workspace: relative, with `/`, and safe on every system."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from sshwarma.common.limits import (
    MAX_PATH_BYTES,
    MAX_PATH_DEPTH,
    MAX_PATH_PART_BYTES,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid, empty_error

_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
"""Control, format (which reorder text), private, surrogate and unassigned characters, and ends of
lines and paragraphs."""

_INVISIBLE_LETTERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters that look like a blank."""


def parse_path(typed: str, argument: str = "path") -> str:
    """Return the path of a file or folder, without `./` before and `/` after it.

    Args:
        typed: what was given.
        argument: its name in refusals.

    Raises:
        Invalid: if it is empty, absolute, leaves the workspace, is too long or too deep, or has
            characters that no file here may have.
    """
    path = typed
    while path.startswith("./"):
        path = path[2:]
    path = path.removesuffix("/")
    if not path or path == ".":
        raise empty_error(argument)
    if problem := find_path_problem(path):
        raise Invalid(f"{argument}: {shorten_name(path)!r} {problem}.")
    return path


def parse_file_path(typed: str, argument: str = "path") -> str:
    """Return the path of a file that is to be written.

    Args:
        typed: what was given.
        argument: its name in refusals.

    Raises:
        Invalid: if it is no path, or one of a folder.
    """
    path = parse_path(typed, argument)
    if typed.endswith("/"):
        raise Invalid(
            f"{argument}: {shorten_name(typed)!r} names a folder.",
            hint="Give the name of a file, without a slash at its end.",
        )
    return path


def find_path_problem(path: str) -> str:
    """Return why a path is not valid, as the rest of a sentence; "" if it is."""
    if path.startswith(("/", "~")):
        return f"must be relative: it begins with {path[0]}"
    if "\\" in path:
        return "must have / between folders, not \\"
    parts = path.split("/")
    if len(parts) > MAX_PATH_DEPTH:
        return f"must have at most {MAX_PATH_DEPTH} names (got {len(parts)})"
    for part in parts:
        if part in ("", "."):
            return "must have no empty folder name"
        if part == "..":
            return "must not leave the workspace (..)"
        if (size := len(part.encode("utf-8", "surrogatepass"))) > MAX_PATH_PART_BYTES:
            return f"has a name of {size} bytes: at most {MAX_PATH_PART_BYTES} are allowed"
        if problem := find_unsafe_character(part):
            return problem
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"must have at most {MAX_PATH_BYTES} bytes"
    return ""


def find_unsafe_character(text: str) -> str:
    """Return which character a name may not have, as the rest of a sentence; or ""."""
    for character in text:
        is_unsafe = unicodedata.category(character) in _UNSAFE_CATEGORIES
        if is_unsafe or character in _INVISIBLE_LETTERS:
            return f"must not contain U+{ord(character):04X}"
    return ""


def list_parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, nearest first: `a/b/c` has `a/b` and `a`."""
    while (end := path.rfind("/")) > 0:
        path = path[:end]
        yield path
