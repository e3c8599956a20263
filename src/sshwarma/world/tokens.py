"""Bearer tokens, with which an agent logs in through a door that has no ssh key.

A token is shown once, when it is created; only its hash is stored. Its prefix lets secret scanners
recognize it; its id, which is not secret, identifies it in lists. A token has a scope, which limits
it whatever its agent may do.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, insert, select, update

from sshwarma.common.limits import MAX_LABEL_CHARACTERS, MAX_TOKENS_PER_AGENT
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.access import TokenScope
from sshwarma.world.errors import Conflict, empty_error
from sshwarma.world.events import TokenRevoked
from sshwarma.world.expiry import Expiring, compute_expiry
from sshwarma.world.ids import new_id
from sshwarma.world.login_keys import read_keys
from sshwarma.world.reader import next_call
from sshwarma.world.schema import tokens
from sshwarma.world.short_ids import choose_match
from sshwarma.world.store import Change

REVOKED_REASON: Final = "The token was revoked."
SIGNED_OUT_REASON: Final = "This browser was signed out."
EXPIRED_REASON: Final = "The token expired."

BEARER_PREFIX: Final = "swt_"

TokenPurpose: TypeAlias = Literal["program", "browser"]
"""Who has a token: a program, which sends it with each request, or a browser, as a cookie."""


@dataclass(frozen=True, slots=True)
class Token(Expiring):
    """A token as lists show it. Times are Unix milliseconds; None never expires.

    `last_used_at` is None for one that was not used, see `LastUse`.
    """

    id: str
    agent_id: str
    label: str
    created_at: int
    expires_at: int | None
    scope: TokenScope = TokenScope.BUILD
    last_used_at: int | None = None
    is_revoked: bool = False
    purpose: TokenPurpose = "program"

    @property
    def is_live(self) -> bool:
        """Whether it lets its agent in, unless that is disabled."""
        return not self.is_revoked and not self.expired


def check_label(label: str) -> str:
    """Return a label without blanks around it.

    Raises:
        Invalid: if nothing is left.
    """
    if not label.strip():
        raise empty_error("label", hint="Use a label such as laptop.")
    return label.strip()


def issue_token(
    tx: Change,
    agent_id: str,
    label: str,
    days: float | None,
    created_by: str | None,
    scope: TokenScope = TokenScope.BUILD,
    fingerprint: str = "",
) -> tuple[Token, str]:
    """Create a token for an agent; return it and its secret, which is not stored.

    Args:
        tx: the change.
        agent_id: whom it lets in.
        label: what its owner knows it by.
        days: lifetime; None until it is revoked.
        created_by: who makes it; None for the command line.
        scope: what it may do.
        fingerprint: of the key with which it is made. It ends with that at the latest, so that
            nobody stays longer with it than they were given.

    Raises:
        Invalid: if `days` is not within 0 and MAX_TOKEN_DAYS.
        Conflict: if the agent already has MAX_TOKENS_PER_AGENT.
    """
    keys = [key for key in read_keys(tx.conn, agent_id) if key.fingerprint == fingerprint]
    ends = (compute_expiry(tx.now, days), *(key.expires_at for key in keys))
    expires = min((end for end in ends if end is not None), default=None)
    if len(read_live_tokens(tx.conn, agent_id, "program")) >= MAX_TOKENS_PER_AGENT:
        raise Conflict(
            f"An agent can have at most {MAX_TOKENS_PER_AGENT} tokens.",
            hint="Revoke one first.",
        )
    secret = BEARER_PREFIX + secrets.token_urlsafe(32)
    token = Token(
        id=new_id(),
        agent_id=agent_id,
        label=replace_nul(label[:MAX_LABEL_CHARACTERS]),
        created_at=tx.now,
        expires_at=expires,
        scope=scope,
    )
    store_token(tx, token, secret, created_by=created_by)
    return token, secret


def store_token(tx: Change, token: Token, secret: str, **others: Any) -> None:
    """Store a token with the hash of its secret, and other columns."""
    tx.conn.execute(
        insert(tokens).values(
            id=token.id,
            token_sha256=hash_secret(secret),
            agent_id=token.agent_id,
            label=token.label,
            created_at=token.created_at,
            expires_at=token.expires_at,
            scope=token.scope.value,
            purpose=token.purpose,
            **others,
        )
    )


def read_live_tokens(
    conn: Connection, agent_id: str | None = None, purpose: TokenPurpose | None = None
) -> list[Token]:
    """Active tokens, oldest first; of one agent, or of one purpose, if given."""
    query = select(tokens).where(tokens.c.deleted_at.is_(None)).order_by(tokens.c.created_at)
    if agent_id is not None:
        query = query.where(tokens.c.agent_id == agent_id)
    if purpose is not None:
        query = query.where(tokens.c.purpose == purpose)
    return [token for token in map(token_from_row, conn.execute(query)) if token.is_live]


def find_token(conn: Connection, secret: str) -> Token | None:
    """Return the token with that secret text, also if it is revoked or has expired."""
    return find_by_secret(conn, secret) if secret.startswith(BEARER_PREFIX) else None


def find_by_secret(conn: Connection, secret: str) -> Token | None:
    """Return the token of any purpose with that secret text; see `find_token`."""
    row = conn.execute(select(tokens).where(tokens.c.token_sha256 == hash_secret(secret))).first()
    return None if row is None else token_from_row(row)


def revoke_token(tx: Change, token_id: str, agent_id: str | None = None) -> Token:
    """Revoke a token, by its id or the start of it; one of that agent's, if given.

    What the token let in ends when TokenRevoked is published; nothing is read for that.

    Raises:
        Invalid: if the id is empty.
        NotFound: if no live token matches, or several do.
    """
    matches = [
        token
        for token in read_live_tokens(tx.conn, agent_id, "program")
        if token.id.startswith(token_id)
    ]
    lists = (
        next_call("{} lists yours.", "token list")
        if agent_id
        else "sshwarma token list NAME lists them."
    )
    token = choose_match("token", token_id, matches, hint=lists)
    end_token(tx, token)
    return token


def end_token(tx: Change, token: Token) -> None:
    """Revoke a token; what it let in ends when TokenRevoked is published."""
    tx.conn.execute(update(tokens).where(tokens.c.id == token.id).values(deleted_at=tx.now))
    tx.publish_on_commit(TokenRevoked(token.agent_id, token.id))


def token_from_row(row: Any) -> Token:
    """Return the token of a database row; a revoked one if its scope is unknown."""
    is_known = row.scope in tuple(TokenScope)
    return Token(
        id=row.id,
        agent_id=row.agent_id,
        label=row.label,
        created_at=row.created_at,
        expires_at=row.expires_at,
        scope=TokenScope(row.scope) if is_known else TokenScope.READ,
        last_used_at=row.last_used_at,
        is_revoked=row.deleted_at is not None or not is_known,
        purpose="browser" if row.purpose == "browser" else "program",
    )


def hash_secret(secret: str) -> str:
    """Return what is stored of a secret text."""
    return hashlib.sha256(secret.encode()).hexdigest()
