"""The verb broadcast: a message to everyone who is connected."""

from __future__ import annotations

from sshwarma.verbs.arguments import Text
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation
from sshwarma.world.access import Right
from sshwarma.world.announcements import make_announcement
from sshwarma.world.caller import Caller


@verb(
    "broadcast",
    section="Access",
    needs=Right.ADMIN,
    tool=False,
    examples=("/broadcast The server restarts soon.",),
)
async def broadcast(caller: Caller, text: Text) -> Confirmation:
    """Send a message to everyone who is connected, in every room.

    It is in the audit and in no room: those who come later do not see it. For them there is the
    setting `motd`.

    Args:
        text: the message.
    """
    announcement = make_announcement(caller.agent.name, text)
    await caller.change(lambda tx: tx.publish_on_commit(announcement))
    count = caller.world.presence.count_agents()
    return Confirmation(f"Sent to {count} {'agent' if count == 1 else 'agents'}.")
