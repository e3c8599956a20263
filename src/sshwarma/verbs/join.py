"""The verbs join, leave and go."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import ExitName, RoomName
from sshwarma.verbs.exit_lookup import find_exit
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import view
from sshwarma.world import movement, namespaces
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.reader import next_call
from sshwarma.world.rooms import Room


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The move of the caller to another room.

    `stays`: whether it is a model that answers, which stays where it was called.
    """

    room: str
    came_from: str
    made: bool = False
    stays: bool = False


@view(MoveResult)
def draw_move_result(moved: MoveResult) -> Block:
    """Draw the room that the caller has created or entered."""
    if moved.room == moved.came_from:
        return block(line("You are in ", ("room", moved.room), " already."))
    if not moved.stays:
        action = "Created" if moved.made else "You are in"
        return block(line(f"{action} ", ("room", moved.room), "."))
    action = "Created" if moved.made else "You may enter"
    stay = f"; you and your tools stay in {moved.came_from} until this answer ends."
    return block(line(f"{action} ", ("room", moved.room), stay, hang=2))


@verb(
    "join",
    section="Moving",
    aliases=("j",),
    examples=("/join workshop",),
    default=True,
    moves=True,
    scope=TokenScope.ACT,
)
async def join(caller: Caller, room: RoomName) -> MoveResult:
    """Go to a room.

    Works from any room. If the room does not exist or you may not enter it, you stay where you
    are.

    For people:
        /create makes a room.

    For models:
        Go to a room.

    Args:
        room: the name of the room.
    """
    try:
        target = await caller.find_room(room)
    except NotFound:
        if not await _is_namespace(caller, room):
            raise
        raise NotFound(
            f"{room} is a namespace of tools, not a room to stand in.",
            hint=next_call("{} loads its tools.", "load", room=room),
        ) from None
    return await move_to_room(caller, target)


async def _is_namespace(caller: Caller, name: str) -> bool:
    try:
        await caller.world.store.read(
            lambda conn: namespaces.find_namespace(conn, name, caller.room_id)
        )
    except NotFound:
        return False
    return True


@verb(
    "leave",
    section="Moving",
    examples=("/leave",),
    default=True,
    covered_by="join",
    moves=True,
    scope=TokenScope.ACT,
)
async def leave(caller: Caller) -> MoveResult:
    """Go back to the lobby."""
    return await move_to_room(caller, await caller.world.room(LOBBY_ID))


@verb(
    "go",
    section="Moving",
    needs=Right.ENTER,
    examples=("/go north", "/go n"),
    default=True,
    moves=True,
    scope=TokenScope.ACT,
)
async def go(caller: Caller, direction: ExitName) -> MoveResult:
    """Take an exit.

    For models:
        Take an exit: its direction or name.

    Args:
        direction: n s e w u d ne nw se sw in out, or the name of an exit.
    """
    way = await find_exit(caller, direction)
    return await move_to_room(caller, await caller.world.room(way.to_id), way.direction)


async def move_to_room(
    caller: Caller, target: Room, direction: str = "", *, is_audited: bool = False
) -> MoveResult:
    """Move the caller to a room it may enter; an answering model stays where it is.

    `is_audited`: whether the request has its audit row already, as that of a new room.

    Raises:
        Forbidden: if the caller may not enter; then nothing has changed.
    """
    if caller.called_in_id is not None:
        here = await movement.check_target(caller, target)
        return MoveResult(target.name, here.name, stays=True)
    origin = await movement.move_caller(caller, target, direction, is_audited=is_audited)
    return MoveResult(target.name, origin.name)
