"""The verb `clone`: a copy of a room with its conversation."""

from __future__ import annotations

from sshwarma.verbs.arguments import RoomName, Word
from sshwarma.verbs.fork import SOURCE_RIGHT, copy_room
from sshwarma.verbs.join import MoveResult
from sshwarma.verbs.registry import verb
from sshwarma.world import clone as clones
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller


@verb(
    "clone",
    section="Moving",
    needs=Right.CREATE,
    also_needs=(SOURCE_RIGHT,),
    tool=False,
    examples=("/clone workshop", "/clone workshop trial"),
    moves=True,
)
async def clone(caller: Caller, room: RoomName, new: Word | None = None) -> MoveResult:
    """Copy a room with its conversation.

    Copies what a fork has, and the log, the turns, the models' notes and the session memory. You go
    to the copy. Later changes in one of the rooms do not affect the other.

    For people:
        /fork makes a fork.

    Args:
        room: the room to copy.
        new: name of the copy (default: ROOM-2, or the next free number).
    """
    return await copy_room(caller, room, new, clones.clone_room, clones.count_copied_bytes)
