"""Invites: one-time codes with which newcomers register their keys."""

from __future__ import annotations

import hashlib
import secrets

from sqlalchemy import insert, select, update

from sshwarma.common.limits import MAX_INVITE_HOURS
from sshwarma.world import agents
from sshwarma.world.errors import Invalid
from sshwarma.world.ids import new_id
from sshwarma.world.schema import invites
from sshwarma.world.store import Change


def create_invite(tx: Change, role: str, hours: float, created_by: str | None) -> str:
    """Create a one-time invite code for a new agent. Only its hash is stored.

    Raises:
        Invalid: if the role is unknown, or `hours` is not within 0 and MAX_INVITE_HOURS.
    """
    agents.check_server_role(role)
    if not 0 < hours <= MAX_INVITE_HOURS:
        raise Invalid(f"hours: must be more than 0 and at most {MAX_INVITE_HOURS} (got {hours:g}).")
    code = secrets.token_urlsafe(9)
    tx.conn.execute(
        insert(invites).values(
            id=new_id(),
            code_sha256=_hash_code(code),
            role=role,
            created_by=created_by,
            created_at=tx.now,
            expires_at=tx.now + int(hours * 3_600_000),
        )
    )
    return code


def redeem_invite(
    tx: Change, code: str, name: str, fingerprint: str, public_key: str
) -> agents.Agent:
    """Use up an invite: create the agent it admits, with this key.

    Raises:
        Invalid: if the code is unknown, used or expired.
        Conflict: if the name or the key is taken; then the code stays valid.
    """
    query = select(invites).where(
        invites.c.code_sha256 == _hash_code(code.strip()),
        invites.c.used_at.is_(None),
        invites.c.deleted_at.is_(None),
        invites.c.expires_at > tx.now,
    )
    invite = tx.conn.execute(query).first()
    if invite is None:
        raise Invalid("Invalid invite code: unknown, used or expired.")
    agent = agents.register_agent(tx, name, invite.role, fingerprint, public_key)
    tx.conn.execute(
        update(invites).where(invites.c.id == invite.id).values(used_by=agent.id, used_at=tx.now)
    )
    return agent


def _hash_code(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
