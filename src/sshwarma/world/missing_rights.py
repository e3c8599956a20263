"""Why an agent lacks a right, for its refusal."""

from __future__ import annotations

from sshwarma.world import access
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.errors import Forbidden
from sshwarma.world.rooms import Room


def explain_missing_right(
    agent: Agent, agents: AgentDirectory, right: Right, room: Room, now: int
) -> Forbidden:
    """Return the refusal for a right that an agent lacks: why, and who can grant it."""
    member = room.members.get(agent.id)
    if member and (member.banned_until or 0) > now and right in (Right.ENTER, Right.TALK):
        return access.banned_error(room.name, member, now)
    if member and (member.muted_until or 0) > now and right is Right.TALK:
        return access.muted_error(room.name, member, now)
    if right in room.rights_of(agent, now=now):
        return Forbidden(
            f"Permission denied: needs the {right} right, which your role on the server gives you,"
            " and no script or custom command of yours.",
            hint="Call it yourself, without a script.",
        )
    return explain_granters(agents, right, room)


def explain_granters(
    agents: AgentDirectory, right: Right, room: Room, purpose: str = ""
) -> Forbidden:
    """Return the refusal for a right that somebody lacks in a room: who can grant it.

    `purpose` says what needs it, if it is not the whole verb: "for a question of bob".
    """
    granters = access.list_granters(right, agents, room.members)
    return access.missing_right_error(right, room.name, granters, purpose)
