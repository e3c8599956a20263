"""Ids that are typed by their start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import NotFound, empty_error, unknown_name_error
from sshwarma.world.reader import Hint

T = TypeVar("T")


def choose_match(kind: str, start: str, matches: Sequence[T], *, where: str = "", hint: Hint) -> T:
    """Return the only one of those whose id begins with what was typed.

    Args:
        kind: what has the id: "token".
        start: the id, or the start of it.
        matches: those whose ids begin so.
        where: where they were looked up, if not everywhere: "of alice".
        hint: what lists the ids.

    Raises:
        Invalid: if `start` is empty.
        NotFound: if nothing matches, or several do.
    """
    if not start:
        raise empty_error(kind, hint=hint)
    if not matches:
        raise unknown_name_error(kind, start, where=where, hint=hint)
    if len(matches) > 1:
        place = f" {where}" if where else ""
        raise NotFound(
            f"{shorten_name(start)} is ambiguous: several {kind}s{place} begin with it.",
            hint="Give more of it.",
        )
    return matches[0]
