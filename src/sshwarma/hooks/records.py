"""Hooks as they are stored, with their last deliveries."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, delete, func, insert, select, update

from sshwarma.common.limits import MAX_HOOKS_PER_AGENT, MAX_HOOKS_PER_ROOM, MAX_KEPT_DELIVERIES
from sshwarma.common.messages import with_limit
from sshwarma.events.matching_rows import read_end_cursor
from sshwarma.world.errors import Conflict, Unavailable, unknown_name_error
from sshwarma.world.ids import new_id
from sshwarma.world.names import check_name
from sshwarma.world.schema import hook_deliveries, hooks
from sshwarma.world.store import Change

SIGNING_PREFIX: Final = "whsec_"
ADDRESS_PREFIX: Final = "swh_"

NoteKind: TypeAlias = Literal["", "note", "decision", "idea", "milestone"]


@dataclass(frozen=True, slots=True)
class OutgoingTarget:
    """Where a hook posts, and what.

    Attributes:
        url: the address.
        on: patterns of the events, with commas.
        body: the template of the body; "" for the usual one.
        own: whether what its maker says is posted, too.
        allow_private: whether the address may be on this machine or in a private network.
    """

    url: str
    on: str
    body: str = ""
    own: bool = False
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class IncomingSource:
    """What a hook does with what is posted to it.

    Attributes:
        template: the text, with values of what is posted; "" for its text.
        kind: the kind of the journal entry that it becomes; "" to say it.
    """

    template: str = ""
    kind: NoteKind = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of a room.

    Attributes:
        agent_id: who made it: it has this agent's rights.
        secret: out: the key of its signatures; in: the hash of that of its address.
        cursor: out: up to where it has posted.
        failing_since: out: when the first delivery failed since one arrived; milliseconds.
        off_reason: why it is off; None while it is on.
    """

    id: str
    room_id: str
    agent_id: str
    name: str
    secret: bytes
    purpose: OutgoingTarget | IncomingSource
    cursor: str | None
    failing_since: int | None
    off_reason: str | None
    created_at: int

    def __repr__(self) -> str:
        return f"Hook({self.id}, {self.name!r})"

    @property
    def target(self) -> OutgoingTarget | None:
        """Where it posts; None if it is an incoming one."""
        return self.purpose if isinstance(self.purpose, OutgoingTarget) else None

    @property
    def source(self) -> IncomingSource | None:
        """What it does with posts; None if it is an outgoing one."""
        return self.purpose if isinstance(self.purpose, IncomingSource) else None


@dataclass(frozen=True, slots=True)
class Delivery:
    """An attempt to deliver something by a hook.

    Attributes:
        at: when, in milliseconds since 1970.
        event: id of the event, or the number of the row that an incoming one made.
        status: of the answer; None if there was none.
        ms: how long it took.
        error: why it failed; "" if it arrived.
    """

    at: int
    event: str
    status: int | None
    ms: int
    error: str = ""


def add_hook(
    tx: Change, room_id: str, agent_id: str, name: str, purpose: OutgoingTarget | IncomingSource
) -> tuple[Hook, str]:
    """Store a new hook; return it, and the text of its secret.

    Raises:
        Invalid: if the name is malformed.
        Conflict: if the room has a hook of that name.
        Unavailable: if it has MAX_HOOKS_PER_ROOM.
    """
    check_name(name, "hook")
    here = hooks.c.room_id == room_id
    if tx.conn.execute(select(hooks.c.id).where(here, hooks.c.name == name)).first():
        raise Conflict(f"There is a hook {name} here.")
    for owner, limit, where in (
        (here, MAX_HOOKS_PER_ROOM, "in this room"),
        (hooks.c.agent_id == agent_id, MAX_HOOKS_PER_AGENT, "of yours"),
    ):
        if tx.conn.execute(select(func.count()).where(owner)).scalar_one() >= limit:
            raise Unavailable(f"{with_limit(f'Too many hooks {where}', limit)}.")
    key = secrets.token_bytes(32)
    if isinstance(purpose, OutgoingTarget):
        stored, shown = key, SIGNING_PREFIX + base64.b64encode(key).decode()
    else:
        shown = ADDRESS_PREFIX + base64.urlsafe_b64encode(key).decode().rstrip("=")
        stored = hash_secret(shown)
    # An outgoing one begins now, also if this server ends at once.
    is_outgoing = isinstance(purpose, OutgoingTarget)
    cursor = read_end_cursor(tx.conn, room_id) if is_outgoing else None
    hook_id = new_id()
    tx.conn.execute(
        insert(hooks).values(
            id=hook_id,
            room_id=room_id,
            agent_id=agent_id,
            name=name,
            direction="out" if is_outgoing else "in",
            secret=stored,
            settings=json.dumps(asdict(purpose), ensure_ascii=False),
            cursor=cursor,
            created_at=tx.now,
        )
    )
    return read_hook(tx.conn, hook_id), shown


def hash_secret(text: str) -> bytes:
    """Return what is stored of the secret of an address."""
    return hashlib.sha256(text.encode()).digest()


def read_hook(conn: Connection, hook_id: str) -> Hook:
    """Return a hook.

    Raises:
        LookupError: if it was removed.
    """
    found = conn.execute(select(hooks).where(hooks.c.id == hook_id)).mappings().first()
    if found is None:
        raise LookupError(f"no hook {hook_id}")
    return _make_hook(found)


def list_hooks(conn: Connection, room_id: str) -> list[Hook]:
    """Return the hooks of a room, by name."""
    query = select(hooks).where(hooks.c.room_id == room_id).order_by(hooks.c.name)
    return [_make_hook(row) for row in conn.execute(query).mappings()]


def list_outgoing(conn: Connection) -> list[str]:
    """Return the ids of the hooks that post."""
    query = select(hooks.c.id).where(hooks.c.direction == "out", hooks.c.off_reason.is_(None))
    return list(conn.execute(query).scalars())


def find_hook(conn: Connection, room_id: str, name: str) -> Hook:
    """Return a hook of a room by its name.

    Raises:
        NotFound: if no hook of the room has that name.
    """
    known = list_hooks(conn, room_id)
    found = next((hook for hook in known if hook.name == name.lower()), None)
    if found is None:
        names = [hook.name for hook in known]
        raise unknown_name_error("hook", name, where="here", known=names)
    return found


def find_by_secret(conn: Connection, text: str) -> Hook | None:
    """Return the hook whose address has this secret; None if no address has it."""
    query = select(hooks).where(hooks.c.direction == "in", hooks.c.secret == hash_secret(text))
    found = conn.execute(query).mappings().first()
    return None if found is None else _make_hook(found)


def remove_hook(tx: Change, hook_id: str) -> None:
    """Remove a hook with its deliveries."""
    tx.conn.execute(delete(hook_deliveries).where(hook_deliveries.c.hook_id == hook_id))
    tx.conn.execute(delete(hooks).where(hooks.c.id == hook_id))


def set_off(tx: Change, hook_id: str, reason: str | None) -> None:
    """Turn a hook off, with the reason; None turns it on."""
    values = {"off_reason": reason, "failing_since": None}
    tx.conn.execute(update(hooks).where(hooks.c.id == hook_id).values(values))


def store_cursor(tx: Change, hook_id: str, cursor: str) -> None:
    """Store up to where a hook has posted."""
    tx.conn.execute(update(hooks).where(hooks.c.id == hook_id).values(cursor=cursor))


def store_delivery(
    tx: Change, hook_id: str, delivery: Delivery, *, is_passed: bool = False
) -> None:
    """Store an attempt; the last MAX_KEPT_DELIVERIES of a hook are kept.

    An event that `is_passed` over, with the reason as error, is no failure of the server.
    """
    fails = bool(delivery.error) and not is_passed
    failing = func.coalesce(hooks.c.failing_since, delivery.at) if fails else None
    changed = update(hooks).where(hooks.c.id == hook_id).values(failing_since=failing)
    if not tx.conn.execute(changed).rowcount:
        return  # it was removed meanwhile
    tx.conn.execute(insert(hook_deliveries).values(hook_id=hook_id, **asdict(delivery)))
    own = select(hook_deliveries.c.n).where(hook_deliveries.c.hook_id == hook_id)
    newest = own.order_by(hook_deliveries.c.n.desc())
    oldest = tx.conn.execute(newest.offset(MAX_KEPT_DELIVERIES).limit(1)).scalar()
    if oldest is not None:
        tx.conn.execute(
            delete(hook_deliveries).where(
                hook_deliveries.c.hook_id == hook_id, hook_deliveries.c.n <= oldest
            )
        )


def read_deliveries(conn: Connection, hook_id: str, limit: int) -> list[Delivery]:
    """Return the last deliveries of a hook, oldest first."""
    query = (
        select(hook_deliveries)
        .where(hook_deliveries.c.hook_id == hook_id)
        .order_by(hook_deliveries.c.n.desc())
        .limit(limit)
    )
    found = [
        Delivery(row["at"], row["event"], row["status"], row["ms"], row["error"])
        for row in conn.execute(query).mappings()
    ]
    return found[::-1]


def _make_hook(row: Any) -> Hook:
    settings = json.loads(row["settings"])
    purpose: OutgoingTarget | IncomingSource = (
        OutgoingTarget(**settings) if row["direction"] == "out" else IncomingSource(**settings)
    )
    return Hook(
        row["id"], row["room_id"], row["agent_id"], row["name"], row["secret"], purpose,
        row["cursor"], row["failing_since"], row["off_reason"], row["created_at"],
    )  # fmt: skip
