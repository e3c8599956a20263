"""The answer to a question that a tool asks during a call."""

from __future__ import annotations

from sshwarma.services import services_of
from sshwarma.verbs.arguments import Flag, Text
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller


@verb(
    "answer",
    section="Tools",
    needs=Right.ENTER,
    tool=False,
    aside=True,
    examples=("/answer Paris", "/answer --decline"),
    scope=TokenScope.ACT,
)
async def answer(
    caller: Caller, text: Text | None = None, *, decline: Flag = False
) -> Confirmation:
    """Answer what a tool asks you.

    Without text the default is used, or the field is left out. Nobody else in the room sees the
    question or the answer.

    Args:
        text: your answer (default: the default of the question).
        decline: decline this question and all that follow in this call.
    """
    hub = services_of(caller).hub
    declines = decline or (text or "").strip() == "--decline"
    hub.elicitation.answer(caller.agent.id, None if declines else text or "")
    done = "Declined." if declines else "Answered."
    # The audit does not repeat the answer, which may be a password.
    await caller.with_verb("answer", done).change(lambda tx: None)
    return Confirmation(done)
