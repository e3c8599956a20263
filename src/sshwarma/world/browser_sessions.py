"""Browsers that are signed in: who let one in over ssh can do there what it may.

A link, which `ssh HOST web` prints, signs in one browser. It is kept in memory only, for two
minutes. A browser has a cookie, whose hash is stored among the tokens. What it may ends with the
key with which the link was asked for.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from sshwarma.common.limits import (
    BROWSER_IDLE_SECONDS,
    BROWSER_SESSION_SECONDS,
    MAX_BROWSER_SESSIONS_PER_AGENT,
    MAX_LABEL_CHARACTERS,
    MAX_SIGN_IN_LINKS_PER_AGENT,
    SIGN_IN_LINK_SECONDS,
)
from sshwarma.world.access import TokenScope
from sshwarma.world.errors import Forbidden
from sshwarma.world.ids import new_id, now_ms
from sshwarma.world.login_keys import read_keys
from sshwarma.world.reader import next_call
from sshwarma.world.schema import tokens as tokens_table
from sshwarma.world.short_ids import choose_match
from sshwarma.world.store import Change
from sshwarma.world.tokens import (
    SIGNED_OUT_REASON,
    Token,
    end_token,
    find_by_secret,
    hash_secret,
    read_live_tokens,
    store_token,
    token_from_row,
)

COOKIE_PREFIX: Final = "swb_"
"""The beginning of what a browser's cookie has; no bearer token begins so."""

LINK_PREFIX: Final = "swl_"


@dataclass(frozen=True, slots=True)
class SignInLink:
    """For whom a link was made, and the fingerprint of the key with which."""

    agent_id: str
    fingerprint: str
    ends_at: float  # of the monotonic clock


class SignInLinks:
    """The links that have not been used, by the hash of their secret."""

    def __init__(self) -> None:
        self._links: dict[str, SignInLink] = {}

    def make(self, agent_id: str, fingerprint: str) -> str:
        """Return the secret of a new link; of too many of an agent the oldest ends."""
        self._drop_ended()
        own = [key for key, link in self._links.items() if link.agent_id == agent_id]
        for key in own[: max(0, len(own) + 1 - MAX_SIGN_IN_LINKS_PER_AGENT)]:
            del self._links[key]
        secret = LINK_PREFIX + secrets.token_urlsafe(32)
        ends_at = time.monotonic() + SIGN_IN_LINK_SECONDS
        self._links[hash_secret(secret)] = SignInLink(agent_id, fingerprint, ends_at)
        return secret

    def find(self, secret: str) -> SignInLink | None:
        """Return for whom a link is, without using it; None as `take`."""
        self._drop_ended()
        return self._links.get(hash_secret(secret))

    def take(self, secret: str) -> SignInLink | None:
        """Return for whom a link is, once; None if it was used, is too old or never was."""
        self._drop_ended()
        return self._links.pop(hash_secret(secret), None)

    def drop(self, agent_id: str) -> None:
        """End the links of an agent, whose key or account was taken away."""
        self._links = {key: link for key, link in self._links.items() if link.agent_id != agent_id}

    def _drop_ended(self) -> None:
        now = time.monotonic()
        self._links = {key: link for key, link in self._links.items() if link.ends_at > now}


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that is signed in, as lists show it; `token` has its times."""

    token: Token
    address: str


def sign_in(tx: Change, link: SignInLink, address: str, browser: str) -> tuple[Token, str]:
    """Let a browser in; return the token of its session and the secret of its cookie.

    The session that was used least recently ends if there are too many.

    Args:
        tx: the change.
        link: the link that it came by.
        address: from which it came.
        browser: what it says it is.

    Raises:
        Forbidden: if the key of the link was removed or has expired.
    """
    keys = {key.fingerprint: key for key in read_keys(tx.conn, link.agent_id)}
    key = keys.get(link.fingerprint)
    if key is None or key.expired:
        raise Forbidden("The key with which this link was made is no longer valid.")
    live = sorted(
        read_live_tokens(tx.conn, link.agent_id, "browser"),
        key=lambda token: token.last_used_at or token.created_at,
    )
    for token in live[: max(0, len(live) + 1 - MAX_BROWSER_SESSIONS_PER_AGENT)]:
        end_token(tx, token)
    ends_at = tx.now + BROWSER_SESSION_SECONDS * 1000
    session = Token(
        id=new_id(),
        agent_id=link.agent_id,
        label=browser[:MAX_LABEL_CHARACTERS],
        created_at=tx.now,
        expires_at=ends_at if key.expires_at is None else min(ends_at, key.expires_at),
        scope=TokenScope.APPROVE,
        purpose="browser",
    )
    secret = COOKIE_PREFIX + secrets.token_urlsafe(32)
    store_token(
        tx, session, secret, created_by=link.agent_id, fingerprint=link.fingerprint, address=address
    )
    return session, secret


def find_session(conn: Connection, secret: str) -> Token | None:
    """Return the token of the session with that cookie; None if it has ended."""
    token = find_by_secret(conn, secret) if secret.startswith(COOKIE_PREFIX) else None
    return token if token is not None and token.is_live and not _is_idle(token) else None


def explain_end(conn: Connection, secret: str) -> str:
    """Return why a browser with that cookie, "" for none, is not signed in."""
    token = find_by_secret(conn, secret) if secret.startswith(COOKIE_PREFIX) else None
    if token is None:
        return "You are not signed in."
    if token.is_revoked:
        why = (
            "its session was ended, its key was removed or got another end, or your account was "
            "disabled"
        )
    elif token.expired or _is_idle(token):
        why = "its session has expired"
    else:
        why = "your account was disabled"
    return f"{SIGNED_OUT_REASON.removesuffix('.')}: {why}."


def _is_idle(token: Token) -> bool:
    return _idle_seconds_left(token) < 0


def _idle_seconds_left(token: Token) -> float:
    return BROWSER_IDLE_SECONDS - (now_ms() - (token.last_used_at or token.created_at)) / 1000


def read_idle_seconds_left(conn: Connection, session_id: str) -> float:
    """Return how long a session may go on without a request; below 0 if it has ended."""
    row = conn.execute(select(tokens_table).where(tokens_table.c.id == session_id)).first()
    return -1.0 if row is None else _idle_seconds_left(token_from_row(row))


def read_sessions(conn: Connection, agent_id: str) -> list[BrowserSession]:
    """Return the sessions of an agent, oldest first."""
    query = (
        select(tokens_table)
        .where(
            tokens_table.c.agent_id == agent_id,
            tokens_table.c.purpose == "browser",
            tokens_table.c.deleted_at.is_(None),
        )
        .order_by(tokens_table.c.created_at)
    )
    found = [BrowserSession(token_from_row(row), row.address or "") for row in conn.execute(query)]
    return [one for one in found if one.token.is_live and not _is_idle(one.token)]


def end_session(tx: Change, session_id: str, agent_id: str) -> Token:
    """End a session of an agent, by its id or the start of it.

    Raises:
        Invalid: if the id is empty.
        NotFound: if no session matches, or several do.
    """
    matches = [one.token for one in read_sessions(tx.conn, agent_id)]
    hint = next_call("{} lists yours.", "web list")
    matches = [token for token in matches if token.id.startswith(session_id)]
    token = choose_match("browser", session_id, matches, hint=hint)
    end_token(tx, token)
    return token
