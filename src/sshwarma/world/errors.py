"""What a person is told when something cannot be done.

Refused                the base: a sentence for people
├── NotFound           nothing of that name here
├── Invalid            the words themselves are wrong
├── Conflict           it would clash with what is
├── Forbidden          the caller lacks a right
└── Unavailable        the world cannot do it now (disk full, shutting down)
"""

from __future__ import annotations


class WorldError(Exception):
    """A request that was not carried out and changed nothing.

    `hint` says what would be right. `at` is the (start, end) of the words at fault in the line
    that was typed, where one was.
    """

    code = "refused"

    def __init__(self, message: str, *, hint: str = "", at: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.at = at

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip() if self.hint else self.message


class NotFound(WorldError):
    code = "not_found"


class Invalid(WorldError):
    code = "invalid"


class Conflict(WorldError):
    code = "conflict"


class Forbidden(WorldError):
    code = "forbidden"


class Unavailable(WorldError):
    code = "unavailable"
