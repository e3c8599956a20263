"""Why a caller lacks a right, for its refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sshwarma.world import access
from sshwarma.world.access import Right
from sshwarma.world.errors import Forbidden

if TYPE_CHECKING:
    from sshwarma.world.caller import Caller
    from sshwarma.world.rooms import Room


def explain_missing_right(caller: Caller, right: Right, room: Room, now: int) -> Forbidden:
    """Return the refusal for a right that a caller lacks: why, and who can grant it."""
    member = room.members.get(caller.agent.id)
    if member and (member.banned_until or 0) > now and right in (Right.ENTER, Right.TALK):
        return access.banned_error(room.name, member, now)
    if member and (member.muted_until or 0) > now and right is Right.TALK:
        return access.muted_error(room.name, member, now)
    if right in room.rights_of(caller.agent, now=now):
        return Forbidden(
            f"Permission denied: scripts and custom commands never have the {right} right.",
            hint="Call it yourself, without a script.",
        )
    return caller.missing_right_error(right, room)
