"""Lookup of a typed direction among the exits of the caller's room."""

from __future__ import annotations

from sshwarma.common.near_names import suggest_near_names
from sshwarma.world import names
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.exits import Exit


async def find_exit(caller: Caller, direction: str) -> Exit:
    """Find the exit of the caller's room that a direction or an exit's name means.

    Raises:
        Invalid: if no exit can have that name.
        NotFound: if the room has no such exit, or it leads to a room that the caller may not know
            of; with the exits there are.
    """
    wanted = names.parse_direction(direction)
    exits = {way.direction: way for way in await caller.visible_exits(await caller.room())}
    if wanted in exits:
        return exits[wanted]
    listed = f"Exits: {', '.join(exits)}." if exits else "This room has no exits."
    near = suggest_near_names(wanted, exits)
    raise NotFound(f"Unknown exit {wanted}.", hint=f"{near} {listed}".strip())


def is_direction(word: str) -> bool:
    """Return whether a word is one of the well-known directions, or short for one."""
    word = word.lower()
    return word in names.DIRECTION_ABBREVIATIONS or names.opposite_direction(word) is not None
