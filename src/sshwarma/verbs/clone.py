"""The verb `clone`: a copy of a room with its conversation."""

from __future__ import annotations

from sshwarma.common.limits import MAX_CLONED_ROWS
from sshwarma.verbs.arguments import RoomName, Word
from sshwarma.verbs.fork import SOURCE_RIGHT, copy_room
from sshwarma.verbs.join import MoveResult
from sshwarma.verbs.registry import verb
from sshwarma.world import clone as clones
from sshwarma.world import rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError


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

    Copies what a fork has, and the log, the turns and the models' notes. You go to the copy. Later
    changes in one of the rooms do not affect the other.

    For people:
        /fork makes a fork.

    Args:
        room: the room to copy.
        new: name of the copy (default: ROOM-2, or the next free number).
    """
    source = await caller.find_room(room)
    size = await caller.world.store.read(
        lambda conn: rows.count_bytes(conn, source.id, MAX_CLONED_ROWS)
    )
    caller.charge_text_volume(size)
    try:
        return await copy_room(caller, room, new, clones.clone_room)
    except WorldError:
        caller.refund_text_volume(size)
        raise
