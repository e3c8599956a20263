"""Errors that a person or a program reads.

WorldError             the base: a sentence for people
├── NotFound           no such name here
├── Invalid            malformed input
├── Conflict           clashes with the present state
├── Forbidden          the caller lacks a right
└── Unavailable        not possible now (disk full, shutting down)
"""

from __future__ import annotations


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
