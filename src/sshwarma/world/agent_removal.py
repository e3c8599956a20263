"""The removal of an agent: it cannot log in any more, and its name is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import select, update

from sshwarma.world import login_keys, things, tokens, triggers
from sshwarma.world.access import read_members
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Invalid
from sshwarma.world.events import AgentEvicted, AgentsChanged, TokenRevoked, WorldChanged
from sshwarma.world.owners import keeping_an_owner
from sshwarma.world.schema import agent_keys, hooks, invites, room_members
from sshwarma.world.schema import tokens as tokens_table
from sshwarma.world.schema import triggers as triggers_table
from sshwarma.world.store import Change

ACCOUNT_REMOVED_REASON: Final = "Your account was removed."


@dataclass(frozen=True, slots=True)
class RemovedAgent:
    """What an agent had when it was removed.

    Attributes:
        keys: the number of its keys.
        tokens: the number of its tokens.
        invites: the number of its codes that nobody had used.
        rooms: names of rooms that it alone owned; owners of the server administer them now.
    """

    name: str
    keys: int
    tokens: int
    invites: int
    rooms: tuple[str, ...]


def remove_agent(tx: Change, agent_id: str) -> RemovedAgent:
    """Remove a person: keys, tokens, codes and memberships; its connections end.

    What it said and made stays, with its name, which somebody else may take.

    Raises:
        Invalid: if the agent is a model.
        Conflict: if the world would lose its last owner.
    """
    thing = things.get_live_thing(tx.conn, agent_id)
    if Agent.from_thing(thing).kind != "person":
        raise Invalid(
            f"{thing.name} is a model.", hint="An owner removes models with /model remove."
        )
    keys = login_keys.read_keys(tx.conn, agent_id)
    live_tokens = tokens.read_live_tokens(tx.conn, agent_id)
    rooms = _end_memberships(tx, agent_id)
    with keeping_an_owner(tx):
        for table in (agent_keys, tokens_table):
            tx.conn.execute(
                update(table)
                .where(table.c.agent_id == agent_id, table.c.deleted_at.is_(None))
                .values(deleted_at=tx.now)
            )
        things.delete_thing(tx, thing)
    revoked = tx.conn.execute(
        update(invites)
        .where(
            invites.c.created_by == agent_id,
            invites.c.used_at.is_(None),
            invites.c.deleted_at.is_(None),
        )
        .values(deleted_at=tx.now)
    )
    _turn_off_automations(tx, agent_id, f"the account {thing.name} was removed")
    tx.publish_on_commit(AgentEvicted(agent_id, ACCOUNT_REMOVED_REASON))
    for token in live_tokens:
        tx.publish_on_commit(TokenRevoked(agent_id, token.id))
    tx.publish_on_commit(AgentsChanged(agent_id))
    return RemovedAgent(thing.name, len(keys), len(live_tokens), revoked.rowcount, rooms)


def _turn_off_automations(tx: Change, agent_id: str, reason: str) -> None:
    """Turn off the triggers and hooks that had the rights of an agent."""
    mine = (triggers_table.c.agent_id == agent_id) & triggers_table.c.off_reason.is_(None)
    for trigger_id in tx.conn.execute(select(triggers_table.c.id).where(mine)).scalars().all():
        triggers.turn_off(tx, trigger_id, reason)
    tx.conn.execute(
        update(hooks)
        .where(hooks.c.agent_id == agent_id, hooks.c.off_reason.is_(None))
        .values(off_reason=reason)
    )


def _end_memberships(tx: Change, agent_id: str) -> tuple[str, ...]:
    """End the roles of an agent in rooms; return the rooms that have no owner then."""
    query = select(room_members.c.room_id).where(
        room_members.c.agent_id == agent_id, room_members.c.deleted_at.is_(None)
    )
    owned = []
    for room_id in tx.conn.execute(query).scalars().all():
        members = read_members(tx.conn, room_id)
        if [one.agent_id for one in members.values() if one.role == "owner"] == [agent_id]:
            room = things.get_thing(tx.conn, room_id)
            if room is not None and room.deleted_at is None:
                owned.append(room.name)
        tx.publish_on_commit(WorldChanged(room_id))
    tx.conn.execute(
        update(room_members)
        .where(room_members.c.agent_id == agent_id, room_members.c.deleted_at.is_(None))
        .values(deleted_at=tx.now, role=None)
    )
    return tuple(sorted(owned))
