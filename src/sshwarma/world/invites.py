"""Invites: one-time codes with which newcomers register their keys."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Connection, func, insert, select, update

from sshwarma.common.limits import MAX_INVITE_HOURS, MAX_LISTED_INVITES, MAX_OPEN_INVITES
from sshwarma.common.units import HOUR_MS
from sshwarma.settings import RegistrationMode
from sshwarma.world import agents, things
from sshwarma.world.access import Right, compute_rights
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.expiry import is_expired
from sshwarma.world.ids import new_id, now_ms
from sshwarma.world.reader import Hint
from sshwarma.world.schema import invites
from sshwarma.world.short_ids import choose_match
from sshwarma.world.store import Change

CODE_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters of a code, which people read aloud and type: without look-alikes and capitals."""

CODE_CHARACTERS: Final = 14
"""Length of a code: 69 bits, which nobody guesses at a few attempts an hour."""


class InvalidInviteCode(Invalid):
    """The code is unknown, used or expired."""


LISTS_INVITES: Final = "sshwarma invite list lists them."


@dataclass(frozen=True, slots=True)
class NewInvite:
    """A new invite code, the id of its invite, and when it expires.

    `expires_at` is in milliseconds since 1970.
    """

    id: str
    code: str
    expires_at: int


InviteState = Literal["open", "used", "expired", "void"]


@dataclass(frozen=True, slots=True)
class Invite:
    """An invite without its code, which is not stored. Times are Unix milliseconds.

    `created_by` is None for one that the command line made; `os_user` is then the user of the
    machine who ran it, if that is known. One is void whose maker may not invite to its role any
    more.
    """

    id: str
    role: str
    created_by: str | None
    created_at: int
    expires_at: int
    used_by: str | None
    used_at: int | None
    maker_may_invite: bool
    os_user: str = ""

    @property
    def state(self) -> InviteState:
        """Whether its code can be used, or why not."""
        if self.used_at is not None:
            return "used"
        if is_expired(self.expires_at):
            return "expired"
        return "open" if self.maker_may_invite else "void"


def create_invite(
    tx: Change, role: str, hours: float, created_by: str | None, os_user: str = ""
) -> NewInvite:
    """Create a one-time invite code for a new agent. Only its hash is stored.

    `os_user` is the user of the machine, if nobody in the world has made it.

    Raises:
        Conflict: if `created_by` has MAX_OPEN_INVITES codes that nobody has used.
        Invalid: if the role is unknown, or `hours` is not within 0 and MAX_INVITE_HOURS.
    """
    agents.check_server_role(role)
    if created_by is not None and _count_open_invites(tx, created_by) >= MAX_OPEN_INVITES:
        raise Conflict(
            f"You can have at most {MAX_OPEN_INVITES} unused invite codes.",
            hint="Revoke one, or wait until one is used or expires.",
        )
    if not 0 < hours <= MAX_INVITE_HOURS:
        raise Invalid(f"hours: must be more than 0 and at most {MAX_INVITE_HOURS} (got {hours:g}).")
    expires_at = tx.now + int(hours * HOUR_MS)
    code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_CHARACTERS))
    invite_id = new_id()
    tx.conn.execute(
        insert(invites).values(
            id=invite_id,
            code_sha256=_hash_code(code),
            role=role,
            created_by=created_by,
            created_at=tx.now,
            expires_at=expires_at,
            os_user=os_user or None,
        )
    )
    return NewInvite(invite_id, code, expires_at)


def read_invites(conn: Connection, created_by: str | None = None) -> list[Invite]:
    """Return the newest invites that were not revoked, the oldest first.

    At most MAX_LISTED_INVITES; with `created_by`, only those that this agent made.
    """
    query = select(invites).where(invites.c.deleted_at.is_(None))
    if created_by is not None:
        query = query.where(invites.c.created_by == created_by)
    newest = conn.execute(query.order_by(invites.c.id.desc()).limit(MAX_LISTED_INVITES))
    return [_invite_from_row(conn, row) for row in newest][::-1]


def find_invite(conn: Connection, invite_id: str, lists: Hint = LISTS_INVITES) -> Invite:
    """Return an invite that was not revoked, by its id or the start of it.

    `lists` says what lists the ids.

    Raises:
        Invalid: if the id is empty.
        NotFound: if no invite matches, or several do.
    """
    query = select(invites).where(
        invites.c.deleted_at.is_(None), invites.c.id.startswith(invite_id.lower(), autoescape=True)
    )
    matches = [_invite_from_row(conn, row) for row in conn.execute(query.limit(2))]
    return choose_match("invite", invite_id, matches, hint=lists)


def revoke_invite(tx: Change, invite_id: str) -> Invite:
    """Revoke an invite, whose code cannot be used any more.

    Raises:
        NotFound: if no invite matches, or several do.
        Conflict: if its code cannot be used anyway.
    """
    invite = find_invite(tx.conn, invite_id)
    if invite.state == "used":
        raise Conflict(
            "The code of this invite was used already.",
            hint="To keep its agent out, disable or remove the agent.",
        )
    if invite.state == "expired":
        raise Conflict("The code of this invite has expired already.")
    tx.conn.execute(update(invites).where(invites.c.id == invite.id).values(deleted_at=tx.now))
    return invite


def _invite_from_row(conn: Connection, row: Any) -> Invite:
    return Invite(
        row.id,
        row.role,
        row.created_by,
        row.created_at,
        row.expires_at,
        row.used_by,
        row.used_at,
        _may_invite(conn, row.created_by, row.role),
        row.os_user or "",
    )


def _count_open_invites(tx: Change, created_by: str) -> int:
    query = (
        select(func.count())
        .select_from(invites)
        .where(
            invites.c.created_by == created_by,
            invites.c.used_at.is_(None),
            invites.c.deleted_at.is_(None),
            invites.c.expires_at > tx.now,
        )
    )
    return int(tx.conn.execute(query).scalar_one())


def redeem_invite(
    tx: Change, code: str, name: str, fingerprint: str, public_key: str
) -> tuple[agents.Agent, str]:
    """Use up an invite: create the agent it admits, with this key.

    Returns:
        The agent, and the id of the invite.

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
        raise InvalidInviteCode("Invalid invite code: unknown, used or expired.")
    if not _may_invite(tx.conn, invite.created_by, invite.role):
        raise InvalidInviteCode(
            "Invalid invite code: its maker may not invite you any more. Ask for another."
        )
    agent = agents.register_agent(tx, name, invite.role, fingerprint, public_key)
    tx.conn.execute(
        update(invites).where(invites.c.id == invite.id).values(used_by=agent.id, used_at=tx.now)
    )
    return agent, invite.id


def _may_invite(conn: Connection, agent_id: str | None, role: str) -> bool:
    """Return whether somebody may still invite to a role, as for `/invite`.

    `agent_id` is None for the command line, which may.
    """
    if agent_id is None:
        return True
    thing = things.get_thing(conn, agent_id)
    if thing is None or thing.deleted_at is not None:
        return False
    maker = agents.Agent.from_thing(thing)
    needed = Right.OWN if role == "admin" else Right.ADMIN
    return not maker.disabled and needed in compute_rights(maker, "private", None, now_ms())


def check_codes_are_used(registration: RegistrationMode) -> None:
    """Raise if no newcomer can use an invite code.

    Raises:
        Conflict: unless new keys are registered with a code.
    """
    if registration == "closed":
        raise Conflict(
            "Registration is closed, so an invite code cannot be used.",
            hint="Start the server with --registration invite.",
        )
    if registration == "open":
        raise Conflict(
            "Registration is open, so an invite code is not needed: any new key may log in.",
            hint="To admit only newcomers with a code, start it with --registration invite.",
        )


def _hash_code(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
