"""Bearer tokens: how an agent comes in through a door that has no ssh key.

A token is shown once, when it is made; only its hash is stored. Its first characters say what it
is, so that secret scanners can know one; its id, which is not secret, names it in lists.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, insert, select, update

from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.events import AgentsChanged
from sshwarma.world.ids import new_id, now_ms
from sshwarma.world.schema import tokens
from sshwarma.world.store import Change

PREFIX: Final = "swt_"
DAY_MS: Final = 86_400_000
TOKEN_DAYS: Final = 3650


@dataclass(frozen=True, slots=True)
class Token:
    """A live token as lists show it. Times are Unix milliseconds; None never expires."""

    id: str
    agent_id: str
    label: str
    created_at: int
    expires_at: int | None


def issue(
    tx: Change, agent_id: str, label: str, days: float | None, created_by: str | None
) -> tuple[Token, str]:
    """Make a token for an agent; returns it and its secret text, which is not kept.

    Raises:
        Invalid: if `days` is not within 0 and TOKEN_DAYS.
    """
    if days is not None and not 0 < days <= TOKEN_DAYS:
        raise Invalid(f"A token is good for more than 0 and at most {TOKEN_DAYS} days.")
    secret = PREFIX + secrets.token_urlsafe(32)
    expires = None if days is None else tx.now + int(days * DAY_MS)
    token = Token(new_id(), agent_id, label[:200], tx.now, expires)
    tx.conn.execute(
        insert(tokens).values(
            id=token.id,
            token_sha256=_hash(secret),
            agent_id=agent_id,
            label=token.label,
            created_by=created_by,
            created_at=tx.now,
            expires_at=expires,
        )
    )
    return token, secret


def live(conn: Connection, agent_id: str | None = None) -> list[Token]:
    """Tokens that are good now, oldest first; of one agent only, if given."""
    query = select(tokens).where(tokens.c.deleted_at.is_(None)).order_by(tokens.c.created_at)
    if agent_id is not None:
        query = query.where(tokens.c.agent_id == agent_id)
    now = now_ms()
    return [
        Token(row.id, row.agent_id, row.label, row.created_at, row.expires_at)
        for row in conn.execute(query)
        if row.expires_at is None or row.expires_at > now
    ]


def holder(conn: Connection, secret: str) -> str | None:
    """The id of the agent a token speaks for, if it is good."""
    if not secret.startswith(PREFIX):
        return None
    query = select(tokens).where(
        tokens.c.token_sha256 == _hash(secret), tokens.c.deleted_at.is_(None)
    )
    row = conn.execute(query).first()
    if row is None or (row.expires_at is not None and row.expires_at <= now_ms()):
        return None
    return str(row.agent_id)


def revoke(tx: Change, token_id: str) -> Token:
    """End a token, by its id or the start of it.

    Raises:
        NotFound: if there is no such live token, or several.
    """
    found = [token for token in live(tx.conn) if token.id.startswith(token_id)]
    if len(found) != 1 or not token_id:
        raise NotFound(f"There are {len(found)} tokens whose id starts with {token_id[:40]!r}.")
    tx.conn.execute(update(tokens).where(tokens.c.id == found[0].id).values(deleted_at=tx.now))
    tx.emit(AgentsChanged(found[0].agent_id))
    return found[0]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
