"""Lines that a terminal refuses: too many ahead, or talk in place of an answer."""

from __future__ import annotations

from sshwarma.common.limits import MAX_TYPED_AHEAD_LINES
from sshwarma.common.messages import with_limit
from sshwarma.world.errors import Conflict, Invalid


def is_talk(typed: str) -> bool:
    """Return whether a line is talk, which returns as a row."""
    return not typed.startswith("/") or typed.startswith("//")


def check_submitted(typed: str, *, waiting: int, has_question: bool) -> None:
    """Check a line at the moment at which it is submitted.

    Args:
        typed: the line.
        waiting: number of lines that wait for the one that runs.
        has_question: whether a tool waits for an answer of this person, which is private.

    Raises:
        Invalid: if too many lines wait.
        Conflict: if everybody would read what may be meant as the answer.
    """
    if waiting >= MAX_TYPED_AHEAD_LINES:
        what = with_limit("Too many waiting lines", MAX_TYPED_AHEAD_LINES)
        raise Invalid(f"{what}.", hint="Send the rest later.")
    if has_question and is_talk(typed):
        raise Conflict(
            "A tool waits for your answer.",
            hint="Type /answer TEXT, /answer --decline, or /say TEXT for the room.",
        )
