"""Errors that a person or a program reads.

WorldError             the base: a sentence for people
├── NotFound           no such name here
├── Invalid            malformed input
│   └── TooLarge       more than is read
├── Conflict           clashes with the present state
├── Forbidden          the caller lacks a right
├── TimedOut           the input did not arrive in time
└── Unavailable        not possible now (disk full, shutting down)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.reported_error import ReportedError
from sshwarma.common.shorten import shorten_name
from sshwarma.world.reader import PERSON, Hint, Reader, hint_text


class WorldError(ReportedError):
    """A request that was refused and changed nothing.

    `hints` say how to correct it, in the words of who reads it. `span` is the (start, end) of the
    wrong words in the typed line, if there was one.
    """

    code = "refused"

    def __init__(
        self,
        message: str,
        *,
        hint: Hint | tuple[Hint, ...] = "",
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hint if isinstance(hint, tuple) else (hint,)
        self.span = span

    def __str__(self) -> str:
        return self.text_for(PERSON)

    def hint_for(self, reader: Reader) -> str:
        """Return the hints in the words of a reader."""
        return " ".join(filter(None, (hint_text(hint, reader) for hint in self.hints)))

    def text_for(self, reader: Reader) -> str:
        """Return the message and the hints in the words of a reader."""
        return f"{self.message} {self.hint_for(reader)}".strip()


class NotFound(WorldError):
    """No such name here."""

    code = "not_found"


class Invalid(WorldError):
    """Malformed input."""

    code = "invalid"


class TooLarge(Invalid):
    """The input has more bytes, or values, than are read."""

    code = "too_large"


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
    """Too many requests in a time.

    `retry_after_seconds`: when the next one is accepted.
    """

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after_seconds: float, hint: Hint = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = math.ceil(retry_after_seconds)

    def hint_for(self, reader: Reader) -> str:
        """Return how long to wait; people read it in the hint, if there is one."""
        if reader.is_person:
            return super().hint_for(reader)
        return f"Wait {self.retry_after_seconds} s."


_BY_CODE: Final = {
    kind.code: kind for kind in (NotFound, Invalid, Conflict, Forbidden, TimedOut, Unavailable)
}


def refusal_of_code(code: str, message: str, hint: str) -> WorldError:
    """Return a refusal that another process has sent; of an unknown code, the base."""
    return _BY_CODE.get(code, WorldError)(message, hint=hint)


def too_long_error(
    what: str, size: int, limit: int, unit: str = "characters", *, hint: Hint = ""
) -> Invalid:
    """Return the refusal of a text that is too long.

    "text: must have at most 4000 characters (got 5120)."

    Args:
        what: the argument, or the text: "description", "the piped input".
        size: its size.
        limit: the greatest size.
        unit: what is counted: "characters", "bytes".
        hint: what to do instead.
    """
    return Invalid(f"{what}: must have at most {limit} {unit} (got {size}).", hint=hint)


def empty_error(what: str, *, hint: Hint | tuple[Hint, ...] = "") -> Invalid:
    """Return the refusal of an empty argument: "text: must not be empty."."""
    return Invalid(f"{what}: must not be empty.", hint=hint)


EMPTY_NAME = '""'
"""How an empty name is shown, so that the sentence has no gap."""


def unknown_name_error(
    kind: str, name: str, *, where: str = "", known: Iterable[str] = (), hint: Hint = ""
) -> NotFound:
    """Return the refusal of a name that nothing has.

    An example: "Unknown room dne. Did you mean den?"

    Args:
        kind: what it should be the name of: "room".
        name: the name as it was typed.
        where: where it was looked up, if not everywhere: "here", "in your bag".
        known: names that the caller may see, among which near ones are suggested.
        hint: what lists the names, if none is near.
    """
    place = f" {where}" if where else ""
    return NotFound(
        f"Unknown {kind} {shorten_name(name) or EMPTY_NAME}{place}.",
        hint=suggest_near_names(name, known) or hint,
    )
