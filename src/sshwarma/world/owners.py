"""Changes of roles, accounts and keys, which leave every world an owner.

Each is one transaction, and transactions run one after another: two at once cannot do together what
neither may do alone. What time does is foreseen: a world that has an owner who can log in keeps one
whose key never expires. Other keys of owners may expire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, update

from sshwarma.world import agents, login_keys, things
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, Invalid, empty_error
from sshwarma.world.events import AgentEvicted, AgentsChanged, KeyRemoved
from sshwarma.world.login_keys import AgentKey, end_sessions_of_agent, end_sessions_of_key
from sshwarma.world.reader import Hint
from sshwarma.world.schema import agent_keys
from sshwarma.world.short_ids import choose_match
from sshwarma.world.store import Change

MIN_FINGERPRINT_CHARACTERS: Final = 8
"""Characters after `SHA256:` that name a key, of 43."""


def set_agent_role(tx: Change, agent_id: str, role: str) -> None:
    """Give a person a server role.

    Raises:
        Invalid: if there is no such role, or the agent is a model.
        Conflict: if the world would lose its last owner.
    """
    agents.check_server_role(role)
    thing = things.get_live_thing(tx.conn, agent_id)
    if Agent.from_thing(thing).kind != "person":
        raise Conflict(
            f"{thing.name} is a model, and models have no role.",
            hint="What a model may do follows from who asks it.",
        )
    with keeping_an_owner(tx):
        things.set_metadata(tx, agent_id, role=role)
    tx.publish_on_commit(AgentsChanged(agent_id))


def set_agent_disabled(tx: Change, agent_id: str, disabled: bool) -> None:
    """Disable an agent and end its connections, or enable it again.

    Raises:
        Conflict: if the world would lose its last owner.
    """
    with keeping_an_owner(tx):
        things.set_metadata(tx, agent_id, disabled=disabled or None)
    if disabled:
        end_sessions_of_agent(tx, agent_id)
        tx.publish_on_commit(AgentEvicted(agent_id, "Your account was disabled by an admin."))
    tx.publish_on_commit(AgentsChanged(agent_id))


def remove_key(tx: Change, agent_id: str, fingerprint: str, asked_from: str = "") -> str:
    """Remove a key and end its connections; return its fingerprint.

    Args:
        tx: the change.
        agent_id: whose key.
        fingerprint: all of it, or a start of at least MIN_FINGERPRINT_CHARACTERS characters.
        asked_from: address of the connection that asks, if the key is its own.

    Raises:
        Invalid: if the fingerprint is empty or too short.
        NotFound: if no key of the agent matches, or several do.
        Conflict: if it is the last key of the last owner.
    """
    _, keys = agents.read_agent(tx.conn, agent_id)
    name = things.get_live_thing(tx.conn, agent_id).name
    key = find_key(keys, name, fingerprint, f"sshwarma keys list {name} lists them.")
    with keeping_an_owner(tx):
        tx.conn.execute(
            update(agent_keys)
            .where(agent_keys.c.fingerprint == key.fingerprint)
            .values(deleted_at=tx.now)
        )
    end_sessions_of_key(tx, key.fingerprint)
    tx.publish_on_commit(AgentsChanged(agent_id))
    tx.publish_on_commit(KeyRemoved(agent_id, key.fingerprint, asked_from=asked_from))
    return key.fingerprint


def recover_owner(
    tx: Change, name: str, fingerprint: str, public_key: str, comment: str = ""
) -> list[str]:
    """Make a person an enabled owner with a key; return what was changed, in words.

    Raises:
        Invalid: if the name is that of a model, or not allowed.
        Conflict: if the key belongs to somebody else.
    """
    done = []
    agent = next((one for one in agents.read_agents(tx.conn)[0] if one.name == name), None)
    if agent is None:
        agent = agents.create_agent(tx, name, role="owner")
        done.append("created")
    # The key comes first: nobody is made an owner who has only keys that expire.
    key_done = _recover_key(tx, agent.id, fingerprint, public_key, comment)
    if agent.disabled:
        set_agent_disabled(tx, agent.id, False)
        done.append("enabled")
    if agent.role != "owner":
        set_agent_role(tx, agent.id, "owner")
        done.append(f"owner (was {agent.role})")
    return done + key_done


def _recover_key(
    tx: Change, agent_id: str, fingerprint: str, public_key: str, comment: str
) -> list[str]:
    """Give an agent a key that never expires; return what was changed, in words."""
    done = login_keys.ensure_key(tx, agent_id, fingerprint, public_key, comment, sets_expiry=True)
    return {"added": ["key added"], "expiry changed": ["key no longer expires"]}.get(done, [])


def count_usable_owners(all_agents: list[Agent], keys: list[AgentKey]) -> int:
    """Count the people who are enabled owners and have a key to log in with now."""
    return _count_owners_with(all_agents, [key for key in keys if not key.expired])


def _count_owners_with(all_agents: list[Agent], keys: list[AgentKey]) -> int:
    """Count the enabled owners who have one of the keys."""
    with_key = {key.agent_id for key in keys}
    return sum(_is_owner(agent) and agent.id in with_key for agent in all_agents)


@dataclass(frozen=True, slots=True)
class _OwnerCounts:
    """Enabled owners; those who can log in now; those with a key that never expires."""

    all: int
    usable: int
    lasting: int


@contextmanager
def keeping_an_owner(tx: Change) -> Iterator[None]:
    """Refuse what is done inside if it takes the last owner or lasting key.

    Raises:
        Conflict: then the transaction is rolled back.
    """
    before = _count_owners(tx.conn)
    yield
    after = _count_owners(tx.conn)
    if (after.all == 0 < before.all) or (after.usable == 0 < before.usable):
        raise Conflict(
            "The world needs an owner with a key, and this is the only one.",
            hint="Make another person owner first.",
        )
    if after.lasting == 0 and (before.lasting or after.usable > before.usable):
        raise Conflict(
            "The world needs an owner with a key that never expires, and this would leave none.",
            hint="Give an owner a key without an expiry first.",
        )


def _count_owners(conn: Connection) -> _OwnerCounts:
    all_agents, keys = agents.read_agents(conn)
    return _OwnerCounts(
        sum(map(_is_owner, all_agents)),
        count_usable_owners(all_agents, keys),
        _count_owners_with(all_agents, [key for key in keys if key.expires_at is None]),
    )


def _is_owner(agent: Agent) -> bool:
    return agent.kind == "person" and agent.role == "owner" and not agent.disabled


def find_key(keys: Sequence[AgentKey], name: str, fingerprint: str, lists: Hint) -> AgentKey:
    """Return the key of an agent that a fingerprint means.

    Args:
        keys: those of the agent.
        name: of the agent.
        fingerprint: all of it, or a start of at least MIN_FINGERPRINT_CHARACTERS characters.
        lists: what lists the keys, for refusals.

    Raises:
        Invalid: if the fingerprint is empty or too short.
        NotFound: if no key matches, or several do.
    """
    start = fingerprint.removeprefix("SHA256:")
    if not start:
        raise empty_error("fingerprint", hint=lists)
    matches = [key for key in keys if key.fingerprint.startswith(f"SHA256:{start}")]
    key = choose_match("key", f"SHA256:{start}", matches, where=f"of {name}", hint=lists)
    if len(start) < MIN_FINGERPRINT_CHARACTERS and key.fingerprint != f"SHA256:{start}":
        enough = f"Give at least {MIN_FINGERPRINT_CHARACTERS} characters after SHA256:."
        hints = (enough, lists)
        raise Invalid(f"SHA256:{start} is too short to name a key.", hint=hints)
    return key
