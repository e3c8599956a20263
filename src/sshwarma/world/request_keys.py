"""Keys with which programs send a request again without running it twice.

The key is stored in the first transaction in which its request changes something, so that a server
that is killed has either both or neither. A request that changes nothing stores no key: to run it
again does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy import Connection, delete, select, update

from sshwarma.common.limits import (
    IDEMPOTENCY_KEY_SECONDS,
    MAX_IDEMPOTENCY_KEY_CHARACTERS,
    MAX_IDEMPOTENCY_KEYS,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import HOUR_SECONDS
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.errors import Conflict, too_long_error
from sshwarma.world.portable_sql import insert_new
from sshwarma.world.row import Row
from sshwarma.world.rows import read_rows_by_id
from sshwarma.world.schema import request_keys
from sshwarma.world.store import Change

T = TypeVar("T")

_SAID_PREFIX: Final = "said "
"""Begins the keys of messages, which thus are not those of requests over HTTP."""

_INSERT: Final = insert_new(request_keys)


@dataclass(slots=True, eq=False)
class KeyedRequest:
    """A request with a key, while it runs.

    Attributes:
        agent_id: whose request it is; keys of different agents have nothing to do with each other.
        digest: hash of what it asks for: another request may not have its key.
        is_stored: whether something has been changed, and the key stored with it.
        is_over: whether the request has ended: what it started may go on changing the world.
        has_secret: whether its answer has a secret, which is not stored.
    """

    agent_id: str
    key: str
    digest: str
    is_stored: bool = False
    is_over: bool = False
    has_secret: bool = False

    def store_with(self, work: Callable[[Change], T]) -> Callable[[Change], T]:
        """Return a change that stores the key, too."""

        def run(tx: Change) -> T:
            store_key(tx, self)
            result = work(tx)
            self.is_stored = True
            return result

        return run


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key that was used. Without a status, its request has not ended."""

    digest: str
    status: int | None
    body: str | None


running_request: ContextVar[KeyedRequest | None] = ContextVar("running_request", default=None)
"""The request with a key in whose course something runs."""


def keep_answer_secret() -> None:
    """Keep the answer of the running request out of the store: it has a secret."""
    request = running_request.get()
    if request is not None:
        request.has_secret = True


def find_unstored_request() -> KeyedRequest | None:
    """Return the running request, if it has a key that is not stored yet."""
    request = running_request.get()
    return None if request is None or request.is_stored or request.is_over else request


def find_key(conn: Connection, agent_id: str, key: str, now: int) -> StoredKey | None:
    """Return what is known of a key; None if it was not used or has expired."""
    query = select(request_keys.c.digest, request_keys.c.status, request_keys.c.body).where(
        request_keys.c.agent_id == agent_id,
        request_keys.c.key == key,
        request_keys.c.created_at > now - IDEMPOTENCY_KEY_SECONDS * 1000,
    )
    found = conn.execute(query).first()
    return None if found is None else StoredKey(*found)


def store_key(tx: Change, request: KeyedRequest) -> None:
    """Store the key of a request that has not ended; delete expired ones."""
    expired = request_keys.c.created_at <= tx.now - IDEMPOTENCY_KEY_SECONDS * 1000
    tx.conn.execute(delete(request_keys).where(expired))
    row = {
        "agent_id": request.agent_id,
        "key": request.key,
        "digest": request.digest,
        "created_at": tx.now,
    }
    tx.conn.execute(_INSERT, row)
    own = select(request_keys.c.n).where(request_keys.c.agent_id == request.agent_id)
    too_old = own.order_by(request_keys.c.n.desc()).offset(MAX_IDEMPOTENCY_KEYS).limit(1)
    oldest = tx.conn.execute(too_old).scalar()
    if oldest is not None:
        tx.conn.execute(
            delete(request_keys).where(
                request_keys.c.agent_id == request.agent_id, request_keys.c.n <= oldest
            )
        )


def find_said(tx: Change, agent_id: str, key: str, text: str, log_id: str | None) -> Row | None:
    """Return the message that an agent has sent with a key before, if it has.

    `log_id` is the room, or the log of two agents, for which it is.

    Raises:
        Invalid: if the key is too long.
        Conflict: if that was another message, or for another place.
    """
    if len(key) > MAX_IDEMPOTENCY_KEY_CHARACTERS:
        raise too_long_error("once", len(key), MAX_IDEMPOTENCY_KEY_CHARACTERS)
    stored = find_key(tx.conn, agent_id, _SAID_PREFIX + key, tx.now)
    if stored is None or stored.body is None:
        return None
    (row,) = read_rows_by_id(tx.conn, [stored.body])
    if row.content != replace_nul(text) or row.room_id != log_id:
        raise Conflict(
            f"once: another message was sent with the key {shorten_name(key)} in the last"
            f" {IDEMPOTENCY_KEY_SECONDS // HOUR_SECONDS} hours.",
            hint="Use a new key for each message.",
        )
    return row


def store_said(tx: Change, agent_id: str, key: str, row: Row) -> None:
    """Store that a message was sent with a key."""
    request = KeyedRequest(agent_id, _SAID_PREFIX + key, "")
    store_key(tx, request)
    store_answer(tx, request, 200, row.id)


def store_answer(tx: Change, request: KeyedRequest, status: int, body: str | None) -> None:
    """Store how a request with a key was answered; `body` is None if it is not kept."""
    own = (request_keys.c.agent_id == request.agent_id) & (request_keys.c.key == request.key)
    tx.conn.execute(update(request_keys).where(own).values(status=status, body=body))
