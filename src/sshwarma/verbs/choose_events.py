"""Which events a program wants to hear: rooms, a position, types."""

from __future__ import annotations

from typing import Final, get_args

from sshwarma.common.limits import MAX_HEARD_ROOMS
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name
from sshwarma.verbs.event_feed import EventFeed
from sshwarma.verbs.heard_events import EventType, parse_cursor
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid

EVENT_TYPES: Final[tuple[EventType, ...]] = get_args(EventType)


async def open_feed(
    caller: Caller, rooms: str = "", after: str = "", types: str = "", *, with_own: bool = False
) -> EventFeed:
    """Return the events of rooms, for a caller.

    Args:
        caller: who hears.
        rooms: names of rooms, with commas; "" for the caller's room.
        after: the id of the last event that was heard; "" for now.
        types: types of events, with commas; "" for all.
        with_own: whether the caller hears what it says itself.

    Raises:
        Invalid: if a value is malformed, or there are too many rooms.
        NotFound, Forbidden: if the caller may not enter a room, or may not know of it.
    """
    names = list(dict.fromkeys(filter(None, (name.strip() for name in rooms.split(",")))))
    if len(names) > MAX_HEARD_ROOMS:
        raise Invalid(f"rooms: {with_limit('too many', MAX_HEARD_ROOMS)}.")
    wanted = [_read_type(word.strip()) for word in types.split(",") if word.strip()]
    cursor = parse_cursor(after) if after else None
    chosen = []
    for name in names:
        chosen.append(await (await caller.in_room(name)).room())
    if not names:
        chosen.append(await caller.room())
    return EventFeed(caller, chosen, cursor, wanted, with_own=with_own)


def _read_type(word: str) -> EventType:
    found = next((one for one in EVENT_TYPES if one == word), None)
    if found is None:
        known = ", ".join(EVENT_TYPES)
        raise Invalid(f"types: unknown type {shorten_name(word)}.", hint=f"There are {known}.")
    return found
