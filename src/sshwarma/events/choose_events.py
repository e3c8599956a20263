"""Which events a program wants to hear: rooms, a position, types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from sshwarma.common.limits import MAX_HEARD_ROOMS
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name
from sshwarma.events.event_feed import EventFeed
from sshwarma.events.event_types import EventType, parse_cursor
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.rooms import Room

EVENT_TYPES: Final[tuple[EventType, ...]] = get_args(EventType)


async def find_rooms(caller: Caller, names: Sequence[str]) -> list[Room]:
    """Return rooms that the caller may enter; its own if there are no names.

    Raises:
        Invalid: if there are more than MAX_HEARD_ROOMS.
        NotFound, Forbidden: if the caller may not enter a room, or may not know of it.
    """
    if len(names) > MAX_HEARD_ROOMS:
        raise Invalid(f"rooms: {with_limit('too many', MAX_HEARD_ROOMS)}.")
    if not names:
        return [await caller.room()]
    return [await (await caller.in_room(name)).room() for name in dict.fromkeys(names)]


async def open_feed(
    caller: Caller, rooms: str = "", after: str = "", types: str = "", *, with_own: bool = False,
    is_of_program: bool = True,
) -> EventFeed:  # fmt: skip
    """Return the events of rooms, for a caller.

    Args:
        caller: who hears.
        rooms: names of rooms, with commas; "" for the caller's room.
        after: the id of the last event that was heard; "" for now.
        types: types of events, with commas; "" for all.
        with_own: whether the caller hears what it says itself.
        is_of_program: whether a program reads it, and no person.

    Raises:
        Invalid: if a value is malformed, or there are too many rooms.
        NotFound, Forbidden: if the caller may not enter a room, or may not know of it.
    """
    names = [name.strip() for name in rooms.split(",") if name.strip()]
    wanted = [_read_type(word.strip()) for word in types.split(",") if word.strip()]
    cursor = parse_cursor(after) if after else None
    chosen = await find_rooms(caller, names)
    return EventFeed(caller, chosen, cursor, wanted, with_own=with_own, is_of_program=is_of_program)


def _read_type(word: str) -> EventType:
    found = next((one for one in EVENT_TYPES if one == word), None)
    if found is None:
        known = ", ".join(EVENT_TYPES)
        raise Invalid(f"types: unknown type {shorten_name(word)}.", hint=f"There are {known}.")
    return found
