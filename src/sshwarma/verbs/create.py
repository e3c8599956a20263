"""The verb `create`: a new room."""

from __future__ import annotations

from dataclasses import replace

from sshwarma.verbs.arguments import Word
from sshwarma.verbs.join import MoveResult, move_to_room
from sshwarma.verbs.registry import verb
from sshwarma.world import rooms as rooms_of_world
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller


@verb(
    "create",
    section="Moving",
    needs=Right.CREATE,
    examples=("/create workshop",),
    default=True,
    moves=True,
)
async def create(caller: Caller, room: Word) -> MoveResult:
    """Create a room and go there.

    You own the new room and go there. It gets the equipment of `defaults`. It can have your own
    name, but not the name of another agent.

    For models:
        Create a room of this name and go there.

    Args:
        room: its name: a lower-case letter, then letters, digits, - or _; at most
            {MAX_NAME_CHARACTERS} characters.
    """
    new_room = await caller.change(
        lambda tx: rooms_of_world.create_room(tx, room.lower(), caller.agent)
    )
    there = await caller.world.room(new_room.id)
    move = await move_to_room(caller, there, is_audited=True)
    return replace(move, made=True)
