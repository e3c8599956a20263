"""The verb `fork`: a copy of a room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_ROOM_COPY_NUMBER
from sshwarma.common.units import MIB
from sshwarma.lua_tools import creation
from sshwarma.services import services_of
from sshwarma.verbs.arguments import RoomName, Word
from sshwarma.verbs.join import MoveResult, move_to_room
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import RoomRight
from sshwarma.world import rooms as rooms_of_world
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, WorldError, too_long_error
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

SOURCE_RIGHT: Final = RoomRight("room", Right.ENTER, "in the room that is copied")
"""The right that a verb which copies a room needs there."""


@verb(
    "fork",
    section="Moving",
    needs=Right.CREATE,
    also_needs=(SOURCE_RIGHT,),
    examples=("/fork workshop", "/fork workshop annex"),
    moves=True,
)
async def fork(caller: Caller, room: RoomName, new: Word | None = None) -> MoveResult:
    """Copy a room without its conversation.

    Copies its texts, files, equipment, things and exits and who may enter, but not its log and its
    members. You own the copy and go there. Its texts and tools count as text that you store.

    Args:
        room: the room to copy.
        new: name of the copy (default: ROOM-2, or the next free number).
    """
    return await copy_room(
        caller, room, new, rooms_of_world.fork_room, rooms_of_world.count_copied_bytes
    )


async def copy_room(
    caller: Caller,
    room: str,
    new: str | None,
    copy: Callable[[Change, str, str, Agent], Thing],
    count_bytes: Callable[[Connection, str], int],
) -> MoveResult:
    """Copy a room with its tools, and take the caller there.

    Args:
        caller: who copies it, may enter it (`SOURCE_RIGHT`) and owns the copy.
        room: the name of the room to copy.
        new: the name of the copy; None for ROOM-2, or the next free number.
        copy: copies the room of an id under a name, for an owner.
        count_bytes: returns how much text that stores; it counts as text that the caller stores.

    Raises:
        NotFound: if the caller may not know of the room.
        Conflict: if the name is taken, or every number.
        Invalid: if the room has more text than an agent may store in an hour.
        RateLimited: if the caller has stored too much in the last hour.
    """
    source = await caller.find_room(room)
    room_names = {existing_room.name for existing_room in await caller.world.rooms()}
    candidates = (f"{source.name}-{number}" for number in range(2, MAX_ROOM_COPY_NUMBER + 1))
    name = (
        new.lower()
        if new
        else next((candidate for candidate in candidates if candidate not in room_names), None)
    )
    if name is None:
        raise Conflict(
            f"{source.name}-2 to {source.name}-{MAX_ROOM_COPY_NUMBER} are taken.",
            hint="Give the copy a name.",
        )

    def work(tx: Change) -> Thing:
        room = copy(tx, source.id, name, caller.agent)
        creation.copy_tools(tx, source.id, room, caller.agent.id)
        services_of(caller).workspaces.copy_files(tx, source.id, room.id, caller.agent.id)
        return room

    size = await caller.world.store.read(lambda conn: count_bytes(conn, source.id))
    limit = caller.limits.text_mib_per_hour * MIB
    if size > limit:
        raise too_long_error(f"text of {source.name}", size, limit, "bytes")
    caller.charge_text_volume(size)
    try:
        new_room = await caller.change(work)
    except WorldError:
        caller.charge_text_volume(-size, is_stored=True)
        raise
    there = await caller.world.room(new_room.id)
    move = await move_to_room(caller, there, is_audited=True)
    return replace(move, made=True)
