"""The people who may answer for a call that needs an approval."""

from __future__ import annotations

from sshwarma.world.access import Right, TokenScope
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict
from sshwarma.world.ids import now_ms
from sshwarma.world.rooms import Room
from sshwarma.world.world import World


class ApprovalDenied(Conflict):
    """A call that was not approved."""


def may_approve(agent: Agent, room: Room) -> bool:
    """Return whether an agent is a person who may answer for a room."""
    return agent.kind == "person" and Right.BUILD in room.rights_of(agent, now=now_ms())


def is_approved_by_caller(caller: Caller, room: Room) -> bool:
    """Return whether a person who may approve calls a tool directly, not by a script."""
    stack = caller.call_stack
    is_direct = not caller.is_of_script and (stack is None or stack.turn_id is None)
    return is_direct and caller.scope.allows(TokenScope.APPROVE) and may_approve(caller.agent, room)


def find_person_id(caller: Caller) -> str:
    """Return the id of the person for whom a call is made: of a model, who asked it."""
    return caller.person_id or caller.agent.id


def find_people(world: World, room: Room) -> list[Agent]:
    """Return the people in a room who may answer and see the question."""
    return [
        agent
        for agent in (world.agents.get(one.agent_id) for one in world.presence.in_room(room.id))
        if agent
        and may_approve(agent, room)
        and any(
            link.room_id == room.id and link.door != "mcp"
            for link in world.presence.connections_of(agent.id)
        )
    ]


def check_people(caller: Caller, tool: str, room: Room) -> None:
    """Raise unless somebody is there who may allow a call.

    Of a script that is only the person in whose name it asks: who has planted it could else allow
    what it does in the name of another.

    Raises:
        ApprovalDenied: saying who could.
    """
    if caller.door == "lua":
        raise ApprovalDenied(
            f"{tool} needs an approval, and a trigger asks for none: others wait while it runs."
        )
    people, person_id = find_people(caller.world, room), find_person_id(caller)
    if caller.is_of_script and person_id not in {one.id for one in people}:
        raise ApprovalDenied(
            f"{tool} needs an approval. A script asks in the name of"
            f" {caller.world.agents.name_of(person_id)}, who alone could give it, in"
            f" {room.name} and with the build right."
        )
    if not people:
        raise ApprovalDenied(
            f"{tool} needs the approval of a person with the build right, and none is in"
            f" {room.name}.",
            hint="Owners and builders of the room have it, and admins and owners of this"
            " server. Ask again when one is there.",
        )
