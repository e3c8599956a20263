"""The rooms that have a toolset equipped, for those who install and uninstall it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sshwarma.common.limits import MAX_NAMED_FILES
from sshwarma.common.shorten import join_with_rest
from sshwarma.world.caller import Caller


async def list_known_rooms(caller: Caller, room_ids: Collection[str]) -> tuple[str, ...]:
    """Return the names of those rooms that the caller may see, the first ones."""
    known = [room.name for room in await caller.known_rooms() if room.id in room_ids]
    return tuple(known[:MAX_NAMED_FILES])


def join_rooms(names: Sequence[str], count: int) -> str:
    """Join names of rooms, the first of `count`: "den, lab and 2 more"."""
    return join_with_rest(names, len(names), total=count)
