"""Errors that a person or a program reads.

WorldError             the base: a sentence for people
├── NotFound           no such name here
├── Invalid            malformed input
├── Conflict           clashes with the present state
├── Forbidden          the caller lacks a right
├── TimedOut           the input did not arrive in time
└── Unavailable        not possible now (disk full, shutting down)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from sshwarma.common.near_names import find_near_names, suggest_names
from sshwarma.common.program_text import drop_commands, names_commands

MAX_SHOWN_NAME_CHARACTERS: Final = 60


class WorldError(Exception):
    """A request that was refused and changed nothing.

    `hint` says how to correct it. `span` is the (start, end) of the wrong words in the typed line,
    if there was one.
    """

    code = "refused"

    def __init__(
        self, message: str, *, hint: str = "", span: tuple[int, int] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip() if self.hint else self.message

    @property
    def program_hint(self) -> str:
        """The hint for a model or a program: without commands and keys, which they cannot type."""
        return "" if names_commands(self.hint) else self.hint

    @property
    def program_message(self) -> str:
        """The message for a model or a program: without commands and keys."""
        return drop_commands(self.message) or self.message

    @property
    def program_text(self) -> str:
        """The message and the hint for a model or a program."""
        return f"{self.program_message} {self.program_hint}".strip()


class NotFound(WorldError):
    """No such name here."""

    code = "not_found"


class Invalid(WorldError):
    """Malformed input."""

    code = "invalid"


class Conflict(WorldError):
    """The request clashes with the present state."""

    code = "conflict"


class Forbidden(WorldError):
    """The caller lacks a right."""

    code = "forbidden"


class TimedOut(WorldError):
    """The input did not arrive in time."""

    code = "timed_out"


class Unavailable(WorldError):
    """Not possible now: the disk is full, the server is busy or shutting down."""

    code = "unavailable"


class RateLimited(Unavailable):
    """Too many requests in a time. `retry_after_seconds`: when the next one is accepted."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after_seconds: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = math.ceil(retry_after_seconds)

    @property
    def program_hint(self) -> str:
        """How long to wait."""
        return f"Wait {self.retry_after_seconds} s."


EMPTY_NAME = '""'
"""How an empty name is shown, so that the sentence has no gap."""


def unknown_name_error(
    kind: str, name: str, *, where: str = "", known: Iterable[str] = (), hint: str = ""
) -> NotFound:
    """Return the refusal of a name that nothing has: "Unknown room dne. Did you mean den?".

    Args:
        kind: what it should be the name of: "room".
        name: the name as it was typed.
        where: where it was looked up, if not everywhere: "here", "in your bag".
        known: names that the caller may see, among which near ones are suggested.
        hint: what lists the names, if none is near.
    """
    suggestions = find_near_names(name, known)
    place = f" {where}" if where else ""
    return NotFound(
        f"Unknown {kind} {name[:MAX_SHOWN_NAME_CHARACTERS] or EMPTY_NAME}{place}.",
        hint=suggest_names(suggestions) or hint,
    )
