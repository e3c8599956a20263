"""Lines that a terminal refuses: too many ahead, or talk in place of an answer."""

from __future__ import annotations

from sshwarma.common.limits import MAX_TYPED_AHEAD_LINES
from sshwarma.common.messages import with_limit
from sshwarma.ssh.door.context import SshContext
from sshwarma.verbs.grammar import is_talk
from sshwarma.world.errors import Conflict, Invalid


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
