"""Talking: to the room, to one person, and what was said before."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line, paragraphs
from sshwarma.verbs.arguments import AgentName, Text
from sshwarma.verbs.caller import Caller
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import view
from sshwarma.world import directs, rows
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.events import Row


@dataclass(frozen=True, slots=True)
class Said:
    """Something was said. A terminal in the room sees the row itself, and needs no answer."""

    room: str
    seq: int
    who: str
    text: str
    to: str | None = None
    emote: bool = False


@view(Said)
def _(said: Said) -> Block:
    first, *more = said.text.split("\n")
    if said.to is not None:
        head = line(("private", f"you → {said.to}"), f": {first}", hang=2)
    elif said.emote:
        head = line(("emote", f"* {said.who} {first}"), hang=2)
    else:
        head = line(("self", said.who), f": {first}", hang=2)
    return block(head, *(paragraphs("\n".join(more), indent=2) if more else ()))


@verb("say", group="Talking", needs=Right.TALK, examples=("/say hello",), default=True)
async def say(caller: Caller, text: Text) -> Said:
    """Send message to room

    What you type without a slash is said. A line that should begin with a slash is typed with
    two.

    text: what to say; several lines are one message.
    """
    row = await _append(caller, "chat", text)
    return Said((await caller.room()).name, row.seq, caller.agent.name, row.content)


@verb("me", group="Talking", needs=Right.TALK, examples=("/me waves",))
async def me(caller: Caller, text: Text) -> Said:
    """Say what you do

    The room sees your name and then the text, as in: * alice waves.

    text: what you do, in the third person.
    """
    row = await _append(caller, "emote", text)
    return Said((await caller.room()).name, row.seq, caller.agent.name, row.content, emote=True)


@verb(
    "tell",
    group="Talking",
    aliases=("msg", "w"),
    examples=("/tell bob are you there?",),
)
async def tell(caller: Caller, name: AgentName, text: Text) -> Said:
    """Say something to one person

    Only the two of you see it and only the two of you can find it again. Who is away finds it
    with /history @NAME.

    name: who it is for; a unique prefix is enough.
    text: what to say.
    """
    other = caller.world.agents.find(name)
    return await _tell(caller, other, text)


@verb("reply", group="Talking", aliases=("r",), examples=("/reply on my way",))
async def reply(caller: Caller, text: Text) -> Said:
    """Answer who told you something last

    text: what to say.
    """
    other_id = await caller.world.store.read(lambda conn: directs.last_from(conn, caller.agent.id))
    other = caller.world.agents.get(other_id)
    if other is None:
        raise NotFound("Nobody has told you anything yet.", hint="/tell NAME starts it.")
    return await _tell(caller, other, text)


async def _tell(caller: Caller, other: Agent, text: str) -> Said:
    if other.id == caller.agent.id:
        raise Invalid("That is you.", hint="/note keeps something for later.")
    if other.disabled:
        raise NotFound(f"{other.name} cannot be reached.")
    words = _checked(caller, text)
    row = await caller.world.change(lambda tx: directs.tell(tx, caller.agent.id, other.id, words))
    return Said("", row.seq, caller.agent.name, words, to=other.name)


async def _append(caller: Caller, kind: str, text: str) -> Row:
    words = _checked(caller, text)
    return await caller.world.change(
        lambda tx: rows.append(tx, caller.room_id, kind, words, author_id=caller.agent.id)
    )


def _checked(caller: Caller, text: str) -> str:
    """The text without the space around it.

    Raises:
        Invalid: if nothing is left, or it is longer than a line may be.
    """
    words = text.strip("\n").rstrip()
    if not words.strip():
        raise Invalid("There is nothing to say.")
    piped = caller.door != "ssh"
    limit = caller.limits.stdin_bytes if piped else caller.limits.line_bytes
    size = len(words.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise Invalid(f"That is {size} bytes; a line has at most {limit}.")
    return words
