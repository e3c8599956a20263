"""Patterns of names, such as `*.py` and `den:*`, with a bound on the work."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

from sshwarma.common.limits import MAX_GLOB_CHARACTERS
from sshwarma.world.errors import too_long_error


def is_glob(text: str, *, has_sets: bool) -> bool:
    """Return whether a text is a pattern: it has `*`, `?` or, with sets, `[`."""
    signs = "*?[" if has_sets else "*?"
    return any(sign in text for sign in signs)


def compile_glob(
    pattern: str, *, has_sets: bool, argument: str = "pattern"
) -> Callable[[str], bool]:
    """Return a function that says whether a whole name matches a pattern, with case.

    `*` means any characters, `/` included, `?` one, and `[a-z]` and `[!a-z]` one of a set. The
    time for a name grows with its length times that of the pattern: the expression that the pattern
    becomes never goes back behind a `*`.

    Args:
        pattern: a pattern, or a name that has none of these signs.
        has_sets: whether `[` begins a set; if not, it means itself.
        argument: the name of the argument that a refusal names.

    Raises:
        Invalid: if a pattern is too long.
    """
    if not is_glob(pattern, has_sets=has_sets):
        return lambda name: name == pattern
    if len(pattern) > MAX_GLOB_CHARACTERS:
        raise too_long_error(argument, len(pattern), MAX_GLOB_CHARACTERS)
    match = re.compile(translate(pattern if has_sets else pattern.replace("[", "[[]"))).match
    return lambda name: match(name) is not None
