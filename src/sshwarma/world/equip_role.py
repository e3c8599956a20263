"""The role from which on an agent may equip itself with a tool.

Other agents use what the room has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sshwarma.world.agents import SERVER_ROLES, Agent, ServerRole, check_server_role
from sshwarma.world.builtin_containers import GLOBAL_ID, INTERNAL_ID
from sshwarma.world.things import Thing

DEFAULT_EQUIP_ROLE: Final[ServerRole] = "member"
"""The role for tools whose namespace sets none."""


def find_equip_role(thing: Thing, chain: Sequence[Thing], agent_id: str) -> ServerRole:
    """Return the role from which on an agent may equip itself with a thing.

    A namespace sets it for what is in it and in the namespaces below. Else it is `guest` for the
    tools of new rooms, whose verbs check rights, for data and for what the agent made, and `member`
    for all other tools: those for files, and those of MCP servers, namespaces, rooms and other
    agents.

    Args:
        thing: the tool, namespace or data.
        chain: its ancestors, from its parent up.
        agent_id: the agent.
    """
    for link in (thing, *chain):
        role = link.metadata.get("equip_role")
        if role:
            return check_server_role(role)
    is_own = any(link.id == agent_id for link in chain)
    is_default = any(link.id in (INTERNAL_ID, GLOBAL_ID) for link in (thing, *chain))
    if is_own or is_default or thing.kind in ("data", "reference"):
        return "guest"
    return DEFAULT_EQUIP_ROLE


def may_equip_itself(agent: Agent, thing: Thing, chain: Sequence[Thing]) -> bool:
    """Return whether an agent may use a thing that it, not the room, has equipped.

    A model may: what it calls for somebody is checked with that person's role.
    """
    role = find_equip_role(thing, chain, agent.id)
    return agent.kind == "model" or SERVER_ROLES.index(agent.role) <= SERVER_ROLES.index(role)


def find_missing_role(person: Agent, tool: Thing, chain: Sequence[Thing]) -> ServerRole | None:
    """Return the role somebody lacks to equip itself with a tool; None if it has it.

    `chain` is as in `find_equip_role`.
    """
    if may_equip_itself(person, tool, chain):
        return None
    return find_equip_role(tool, chain, person.id)
