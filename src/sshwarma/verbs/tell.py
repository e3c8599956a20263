"""The verbs tell and reply, for private messages."""

from __future__ import annotations

from sshwarma.verbs.arguments import AgentName, Text
from sshwarma.verbs.registry import verb
from sshwarma.verbs.say import SentMessage, clean_text
from sshwarma.world import private_messages
from sshwarma.world.access import TokenScope
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.reader import next_call
from sshwarma.world.request_keys import find_said, store_said
from sshwarma.world.row import Row
from sshwarma.world.store import Change


@verb(
    "tell",
    section="Talking",
    aliases=("msg", "w"),
    examples=("/tell bob are you there?",),
    private_with=("text",),
    scope=TokenScope.ACT,
)
async def tell(caller: Caller, name: AgentName, text: Text) -> SentMessage:
    """Send a private message to one person.

    Only the two of you can see and find it. Somebody who is away reads it at the next login.

    For people:
        /history @NAME shows what you and NAME have sent each other.

    Args:
        name: the agent; a unique prefix is enough.
        text: the message.
    """
    recipient = caller.world.agents.find(name)
    return await _send_private_message(caller, recipient, text)


@verb(
    "reply",
    section="Talking",
    aliases=("r",),
    examples=("/reply on my way",),
    private_with=("text",),
    scope=TokenScope.ACT,
)
async def reply(caller: Caller, text: Text) -> SentMessage:
    """Answer the private message that you received last.

    Args:
        text: the message.
    """
    recipient_id = await caller.world.store.read(
        lambda conn: private_messages.read_last_sender(conn, caller.agent.id)
    )
    recipient = caller.world.agents.get(recipient_id)
    if recipient is None and recipient_id is not None:
        name = caller.world.agents.name_of(recipient_id)
        raise NotFound(f"{name}, who sent you the last private message, was removed.")
    if recipient is None:
        raise NotFound(
            "Nobody has sent you a private message yet.",
            hint=next_call("{} sends one.", "tell", name="NAME", text="TEXT"),
        )
    return await _send_private_message(caller, recipient, text)


async def _send_private_message(caller: Caller, recipient: Agent, text: str) -> SentMessage:
    if recipient.id == caller.agent.id:
        raise Invalid(
            "You cannot send yourself a private message.",
            hint=next_call("{} keeps something for later.", "note", text="TEXT"),
        )
    if recipient.disabled:
        raise NotFound(f"{recipient.name} cannot be reached.")
    if recipient.kind == "model":
        raise Conflict(
            f"{recipient.name} is a model: models read rooms, and no private messages.",
            hint=next_call("Ask it in a room with {}.", "say", text=f"@{recipient.name} TEXT"),
        )
    message = clean_text(caller, text)

    def send(tx: Change) -> Row:
        log_id = private_messages.find_private_log(tx.conn, caller.agent.id, recipient.id)
        if caller.once and (said := find_said(tx, caller.agent.id, caller.once, message, log_id)):
            return said
        row = private_messages.send_private_message(tx, caller.agent.id, recipient.id, message)
        if caller.once:
            store_said(tx, caller.agent.id, caller.once, row)
        return row

    row = await caller.world.change(send)
    is_away = not caller.world.presence.connections_of(recipient.id)
    note = f"{recipient.name} is away and will read it at the next login." if is_away else ""
    return SentMessage("", row.seq, caller.agent.name, message, to=recipient.name, note=note)
