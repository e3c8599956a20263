"""Where a browser goes after a verb that has moved its caller into another room."""

from __future__ import annotations

from typing import Final

from sshwarma.verbs.registry import Verb
from sshwarma.web.console.frames import room_path
from sshwarma.world.caller import Caller

MOVED_HEADER: Final = "Sshwarma-Path"
"""The header of an answer whose verb has moved its caller: the path of the new room's page."""


async def find_new_room(caller: Caller, verb: Verb | None) -> str:
    """Return the path of the room into which a verb has moved the caller, or ""."""
    agent = caller.world.agents.get(caller.agent.id)
    if verb is None or not verb.moves or agent is None or agent.room_id == caller.room_id:
        return ""
    return room_path((await caller.world.room(agent.room_id)).name)


def moved_headers(path: str) -> dict[str, str]:
    """Return the headers of an answer that leads a script to a path; none for ""."""
    return {MOVED_HEADER: path} if path else {}
