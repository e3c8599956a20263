"""Errors that a person or a program reads.

WorldError             the base: a sentence for people
├── NotFound           no such name here
├── Invalid            malformed input
├── Conflict           clashes with the present state
├── Forbidden          the caller lacks a right
└── Unavailable        not possible now (disk full, shutting down)
"""

from __future__ import annotations

import math

from sshwarma.common.program_text import drop_commands, names_commands


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
    def program_text(self) -> str:
        """The message and the hint for a model or a program."""
        message = drop_commands(self.message) or self.message
        return f"{message} {self.program_hint}".strip()


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
