"""Keys with which programs send a request again without running it twice.

The key is stored in the first transaction in which its request changes something, so that a server
that is killed has either both or neither. A request that changes nothing stores no key: to run it
again does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.sqlite import insert

from sshwarma.common.limits import IDEMPOTENCY_KEY_SECONDS, MAX_IDEMPOTENCY_KEYS
from sshwarma.world.schema import request_keys
from sshwarma.world.store import Change

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class KeyedRequest:
    """A request with a key, while it runs.

    Attributes:
        agent_id: whose request it is; keys of different agents have nothing to do with each other.
        digest: hash of what it asks for: another request may not have its key.
        is_stored: whether something has been changed, and the key stored with it.
        is_over: whether the request has ended: what it started may go on changing the world.
    """

    agent_id: str
    key: str
    digest: str
    is_stored: bool = False
    is_over: bool = False

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


def store_key_with(work: Callable[[Change], T]) -> Callable[[Change], T]:
    """Return a change that stores the key of the running request, if it has one, too."""
    request = running_request.get()
    if request is None or request.is_stored or request.is_over:
        return work
    return request.store_with(work)


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
    tx.conn.execute(insert(request_keys).values(row).on_conflict_do_nothing())
    own = select(request_keys.c.n).where(request_keys.c.agent_id == request.agent_id)
    too_old = own.order_by(request_keys.c.n.desc()).offset(MAX_IDEMPOTENCY_KEYS).limit(1)
    oldest = tx.conn.execute(too_old).scalar()
    if oldest is not None:
        tx.conn.execute(
            delete(request_keys).where(
                request_keys.c.agent_id == request.agent_id, request_keys.c.n <= oldest
            )
        )


def store_answer(tx: Change, request: KeyedRequest, status: int, body: str | None) -> None:
    """Store how a request with a key was answered; `body` is None if it is too long."""
    own = (request_keys.c.agent_id == request.agent_id) & (request_keys.c.key == request.key)
    tx.conn.execute(update(request_keys).where(own).values(status=status, body=body))
