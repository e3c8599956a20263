"""The verb dig: a new room behind a new exit."""

from __future__ import annotations

from sshwarma.verbs.arguments import Direction, Flag, Word
from sshwarma.verbs.portal import NewPortal
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.world import exits, names, rooms
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change


@verb(
    "dig",
    section="Building",
    needs=Right.BUILD,
    also_needs=(ArgumentRight("room", Right.CREATE, "to make a room"),),
    tool=False,
    examples=("/dig north studio", "/dig down cellar --oneway"),
)
async def dig(
    caller: Caller, direction: Direction, room: Word, *, oneway: Flag = False
) -> NewPortal:
    """Make a room behind a new exit of this room, with the way back.

    You own the new room and stay here. It gets the equipment of `defaults`. An exit with a name of
    your own, which has no opposite, gets no way back.

    Args:
        direction: n s e w u d ne nw se sw in out, or a name of your own.
        room: name of the new room.
        oneway: leave out the way back.
    """
    here, exit_name = await caller.room(), names.parse_direction(direction)
    taken = next((way for way in here.exits if way.direction == exit_name), None)
    if taken is not None:
        raise Conflict(
            f"There is an exit {exit_name} already.",
            hint=next_call("{} closes it.", "unportal", direction=exit_name),
        )
    back = None if oneway else names.opposite_direction(exit_name)

    def work(tx: Change) -> str:
        new_room = rooms.create_room(tx, room.lower(), caller.agent)
        exits.open_exit(tx, here.id, exit_name, new_room.id, caller.agent.id)
        if back is not None:
            exits.open_exit(tx, new_room.id, back, here.id, caller.agent.id)
        return new_room.name

    name = await caller.change(work, f"opened an exit: {exit_name} → {room.lower()}")
    return NewPortal(
        exit_name, name, f"{back} → {here.name} (from {name})" if back is not None else None
    )
