"""The verb `rooms`."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import (
    draw_columns,
    view,
)
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class RoomListItem:
    """A room as /rooms shows it. `here`: whether the caller is in it."""

    name: str
    people: int
    access: str
    description: str
    here: bool


@dataclass(frozen=True, slots=True)
class RoomList:
    """The rooms that the caller may see."""

    rooms: tuple[RoomListItem, ...]


@view(RoomList)
def draw_room_list(result: RoomList) -> Block:
    """Draw the rooms, with the number of agents in each."""
    return block(
        line(("heading", "Rooms:")),
        *draw_columns(
            (
                ("mark", "→" if room.here else " "),
                ("room", room.name),
                f"{room.people} here",
                ("dim", "" if room.access == "open" else f"[{room.access}]"),
                room.description,
            )
            for room in result.rooms
        ),
    )


@verb("rooms", section="Looking", examples=("/rooms",), default=True)
async def rooms(caller: Caller) -> RoomList:
    """List the rooms.

    Sorted by name, with the number of people in each. Only members see a private room.

    For models:
        List the rooms, not namespaces.
    """
    return RoomList(
        tuple(
            RoomListItem(
                room.name,
                caller.world.presence.count(room.id),
                room.mode,
                room.description or room.vibe,
                room.id == caller.room_id,
            )
            for room in await caller.known_rooms()
        )
    )
