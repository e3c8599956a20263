"""The public keys with which agents log in: added, given an expiry, read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, and_, insert, select, update

from sshwarma.common.limits import MAX_KEYS_PER_AGENT, MAX_LABEL_CHARACTERS
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world import things
from sshwarma.world.errors import Conflict
from sshwarma.world.events import AgentsChanged, KeyExpirySet, TokenRevoked
from sshwarma.world.expiry import Expiring
from sshwarma.world.schema import agent_keys, tokens
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

KeyAddition = Literal["added", "expiry changed", "unchanged"]

LAST_SEEN_FIELD: Final = "last_seen_at"
"""In the metadata of an agent: the last use of its keys whose rows were used again."""

EXPIRED_KEY_REASON: Final = "The key of this connection has expired."


@dataclass(frozen=True, slots=True)
class AgentKey(Expiring):
    """A public key of an agent. `public_key` is its OpenSSH text without the comment.

    Times are Unix milliseconds. `expires_at` is None for a key that never expires; `last_used_at`
    is None for one that was not used, see `LastUse`.
    """

    fingerprint: str
    agent_id: str
    public_key: str
    comment: str
    created_at: int
    expires_at: int | None = None
    last_used_at: int | None = None


def read_keys(conn: Connection, agent_id: str | None = None) -> list[AgentKey]:
    """Return every key, also those that have expired; of one agent only, if given."""
    query = select(agent_keys).where(agent_keys.c.deleted_at.is_(None))
    if agent_id is not None:
        query = query.where(agent_keys.c.agent_id == agent_id)
    return [_key_from_row(row) for row in conn.execute(query.order_by(agent_keys.c.created_at))]


def add_key(
    tx: Change,
    agent_id: str,
    fingerprint: str,
    public_key: str,
    comment: str = "",
    created_by: str | None = None,
    expires_at: int | None = None,
) -> None:
    """Add a key with which an agent can log in.

    Raises:
        Conflict: if the key is already registered; one key is one identity. If the agent already
            has MAX_KEYS_PER_AGENT.
    """
    owner = _find_owner(tx.conn, fingerprint)
    if owner is not None:
        raise Conflict(f"That key already belongs to {owner.name}.")
    if len(read_keys(tx.conn, agent_id)) >= MAX_KEYS_PER_AGENT:
        raise Conflict(
            f"An agent can have at most {MAX_KEYS_PER_AGENT} keys.", hint="Remove one first."
        )
    query = select(agent_keys).where(agent_keys.c.fingerprint == fingerprint)
    key_row = tx.conn.execute(query).first()
    values = {
        "agent_id": agent_id,
        "public_key": public_key,
        "comment": replace_nul(comment[:MAX_LABEL_CHARACTERS]),
        "created_by": created_by,
        "created_at": tx.now,
        "deleted_at": None,
        "expires_at": expires_at,
        "last_used_at": None,
    }
    if key_row is None:
        tx.conn.execute(insert(agent_keys).values(fingerprint=fingerprint, **values))
    else:
        _keep_last_use(tx, key_row)
        tx.conn.execute(
            update(agent_keys).where(agent_keys.c.fingerprint == fingerprint).values(**values)
        )
    tx.publish_on_commit(AgentsChanged(agent_id))


def ensure_key(
    tx: Change,
    agent_id: str,
    fingerprint: str,
    public_key: str,
    comment: str = "",
    expires_at: int | None = None,
    *,
    sets_expiry: bool = False,
) -> KeyAddition:
    """Add a key to an agent that may have it already; return what was done.

    A key that it has gets the expiry only with `sets_expiry`: adding a key again never lengthens
    access without being asked to.

    Raises:
        Conflict: if the key belongs to another agent.
    """
    known = {key.fingerprint: key for key in read_keys(tx.conn, agent_id)}.get(fingerprint)
    if known is None:
        add_key(tx, agent_id, fingerprint, public_key, comment, expires_at=expires_at)
        return "added"
    if not sets_expiry or known.expires_at == expires_at:
        return "unchanged"
    set_key_expiry(tx, known, expires_at)
    return "expiry changed"


def add_own_key(
    tx: Change, agent_id: str, fingerprint: str, public_key: str, comment: str, made_with: str
) -> tuple[AgentKey, bool]:
    """Add a key that its agent adds; return it, and whether it is new.

    Args:
        tx: the change.
        agent_id: the agent.
        fingerprint: of the new key.
        public_key: its OpenSSH text without the comment.
        comment: its comment.
        made_with: fingerprint of the key with which the agent asks. The new key ends with that, so
            that nobody stays longer than they were let in for.

    Raises:
        Conflict: if the key belongs to somebody else, who is not named: with a list of public keys
            of a site, anybody could ask who is who. If the agent already has MAX_KEYS_PER_AGENT.
    """
    owner = _find_owner(tx.conn, fingerprint)
    if owner is not None and owner.id != agent_id:
        raise Conflict(
            "That key already belongs to somebody else.",
            hint="A key is of one agent. A new one: ssh-keygen -t ed25519",
        )
    if owner is None:
        ends = {key.fingerprint: key.expires_at for key in read_keys(tx.conn, agent_id)}
        add_key(tx, agent_id, fingerprint, public_key, comment, agent_id, ends.get(made_with))
    added = {key.fingerprint: key for key in read_keys(tx.conn, agent_id)}[fingerprint]
    return added, owner is None


def _find_owner(conn: Connection, fingerprint: str) -> Thing | None:
    """Return the agent that has a key, also one that has expired, or None."""
    is_live = and_(agent_keys.c.fingerprint == fingerprint, agent_keys.c.deleted_at.is_(None))
    agent_id = conn.execute(select(agent_keys.c.agent_id).where(is_live)).scalar()
    owner = None if agent_id is None else things.get_thing(conn, agent_id)
    return owner if owner is not None and owner.deleted_at is None else None


def set_key_expiry(tx: Change, key: AgentKey, expires_at: int | None) -> None:
    """Change when a key expires; its connections end then."""
    tx.conn.execute(
        update(agent_keys)
        .where(agent_keys.c.fingerprint == key.fingerprint)
        .values(expires_at=expires_at)
    )
    end_sessions_of_key(tx, key.fingerprint)  # their own end was set by the earlier one
    tx.publish_on_commit(AgentsChanged(key.agent_id))
    tx.publish_on_commit(KeyExpirySet(key.agent_id, key.fingerprint, expires_at))


def end_sessions_of_key(tx: Change, fingerprint: str) -> None:
    """End the browsers that were let in with a key."""
    _end_sessions(tx, tokens.c.fingerprint == fingerprint)


def end_sessions_of_agent(tx: Change, agent_id: str) -> None:
    """End all browsers of an agent."""
    _end_sessions(tx, tokens.c.agent_id == agent_id)


def _end_sessions(tx: Change, which: ColumnElement[bool]) -> None:
    is_meant = and_(which, tokens.c.purpose == "browser", tokens.c.deleted_at.is_(None))
    for token in tx.conn.execute(select(tokens).where(is_meant)).all():
        tx.publish_on_commit(TokenRevoked(token.agent_id, token.id))
    tx.conn.execute(update(tokens).where(is_meant).values(deleted_at=tx.now))


def _keep_last_use(tx: Change, key_row: Any) -> None:
    """Keep with its agent when a removed key was last used: its row is used again."""
    agent = things.get_thing(tx.conn, key_row.agent_id)
    if key_row.last_used_at is None or agent is None or agent.deleted_at is not None:
        return
    if agent.is_readable and key_row.last_used_at > agent.metadata.get(LAST_SEEN_FIELD, 0):
        values = {LAST_SEEN_FIELD: key_row.last_used_at}
        things.set_metadata(tx, agent.id, structural=False, **values)


def _key_from_row(row: Any) -> AgentKey:
    return AgentKey(
        row.fingerprint,
        row.agent_id,
        row.public_key,
        row.comment,
        row.created_at,
        row.expires_at,
        row.last_used_at,
    )
