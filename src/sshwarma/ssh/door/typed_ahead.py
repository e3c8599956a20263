"""Lines that a terminal refuses: too many ahead, or talk in place of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import Final, NamedTuple

from sshwarma.common.limits import MAX_TYPED_AHEAD_LINES
from sshwarma.common.messages import with_limit
from sshwarma.ssh.door.context import SshContext, is_concurrent_line
from sshwarma.ssh.door.line_progress import LineProgress
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.called_verb import find_typed, is_talk
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.views import format_count
from sshwarma.world.errors import Conflict, Invalid, WorldError

PASTE_PAUSE_SECONDS: Final = 0.5
"""Seconds without another refused line after which a paste has ended: parts of one come faster,
lines of a person slower."""


class TypedLine(NamedTuple):
    """A submitted line, and the numbers of the questions on the screen then."""

    text: str
    shown: frozenset[int]


def check_line(
    typed: str, context: SshContext, agent_id: str, waiting: int, is_leaving: bool
) -> None:
    """Check that a line may be taken.

    Args:
        typed: the line.
        context: of the door.
        agent_id: of its person.
        waiting: the number of lines that wait for the line that runs.
        is_leaving: whether the person has typed Ctrl-D before it.

    Raises:
        WorldError: if it may not.
    """
    check_waiting_lines(waiting)
    check_talk(context, agent_id, typed)
    if is_leaving and typed.split()[0] != "/stop":
        raise Conflict("You are leaving: this line came after Ctrl-D.")


def check_waiting_lines(count: int) -> None:
    """Check that one more line may wait for the line that runs.

    Raises:
        Invalid: if there are too many.
    """
    if count >= MAX_TYPED_AHEAD_LINES:
        what = with_limit("Too many waiting lines", MAX_TYPED_AHEAD_LINES)
        raise Invalid(f"{what}.", hint="Send the rest later.")


def check_talk(context: SshContext, agent_id: str, typed: str) -> None:
    """Check that a line is not talk while a tool waits for a private answer.

    Raises:
        Conflict: if everybody would read what may be meant as the answer.
    """
    if is_talk(typed) and context.services.hub.elicitation.is_waiting_for(agent_id):
        raise Conflict(
            "A tool waits for your answer.",
            hint="Type /answer TEXT, /answer --decline, or /say TEXT for the room.",
        )


def is_aside(typed: str, progress: LineProgress) -> bool:
    """Return whether a terminal runs a line at once, while another runs.

    `/stop` and `/look` are meant for what runs when somebody has waited for it: those of a paste
    are not, which the lines before them have to do with.
    """
    if is_concurrent_line(typed):
        return True
    return progress.is_late and (
        is_stop(typed) or (_find_verb_name(typed) == "look" and progress.is_late_alone)
    )


def is_stop(typed: str) -> bool:
    """Return whether a line stops what runs."""
    return _find_verb_name(typed) == "stop"


def may_ask_models(typed: str) -> bool:
    """Return whether a line may have set off answers of models."""
    return is_talk(typed) or _find_verb_name(typed) in ("say", "retry")


def _find_verb_name(typed: str) -> str:
    found = find_typed(typed) if typed.startswith("/") else None
    return found[0].name if found is not None else ""


class RefusedLines:
    """Prints why lines were refused: of a paste the first, then a number.

    `show_block` prints a block on the person's terminal. `lines` are those that wait: the paste
    has not ended before them.
    """

    def __init__(self, show_block: Callable[[Block], None], lines: Sized) -> None:
        self._show_block = show_block
        self._lines = lines
        self._more = 0  # refused lines of this paste after the first
        self._pause: asyncio.TimerHandle | None = None

    def show(self, typed: str, error: WorldError) -> None:
        """Print why a line was refused; talk is not on the screen and is shown again."""
        if is_talk(typed):
            self._show_block(block(line(("dim", "not sent: "), typed)))
        self._show_block(draw_refusal(error, typed))

    def show_first(self, typed: str, error: WorldError) -> None:
        """Print it, unless another was refused a moment ago: then only count the line."""
        if self._pause is None:
            self.show(typed, error)
        else:
            self._more += 1
            self._pause.cancel()
        self._wait()

    def end_paste(self) -> None:
        """Print now how many lines of a paste were refused."""
        self.close()
        more, self._more, self._pause = self._more, 0, None
        if more:
            were = "was" if more == 1 else "were"
            refused = ("error", f"At least {format_count(more, 'more line')} {were} not taken.")
            self._show_block(block(line(refused, ("dim", " Send them later, in smaller parts."))))

    def close(self) -> None:
        """Print nothing more."""
        if self._pause is not None:
            self._pause.cancel()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._pause = loop.call_later(PASTE_PAUSE_SECONDS, self._on_pause)

    def _on_pause(self) -> None:
        if self._lines:
            self._wait()
        else:
            self.end_paste()
