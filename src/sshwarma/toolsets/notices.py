"""What rooms read when a toolset that they use changes."""

from __future__ import annotations

from collections.abc import Collection

from sshwarma.world import things
from sshwarma.world.caller import Caller
from sshwarma.world.equipment import find_rooms_with
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


def tell_rooms(
    tx: Change, caller: Caller, space: Thing, action: str, former: Collection[str] = ()
) -> None:
    """Append a notice in the caller's room, and in all that have a toolset equipped.

    Before what deletes the toolset.

    Args:
        tx: the change that it is part of.
        caller: who has changed it.
        space: the toolset.
        action: what the caller did, such as "disabled the toolset charts".
        former: ids of rooms that had it equipped only before it was uninstalled.
    """
    tools = things.read_children(tx.conn, space.id, "tool")
    equipped = find_rooms_with(tx.conn, [space.id, *(tool.id for tool in tools)])
    hint = PERSON.hint(": {}", "equip", context="room", patterns=f"{space.label}:*")
    lost = f", which is not equipped here any more{hint}"
    for room_id in sorted({*equipped, *former, caller.room_id}):
        text = f"{action}{lost}" if room_id in former else action
        caller.with_room(room_id).append_notice(tx, text)
