"""Access rights: server roles, room roles, and the rights they give."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Connection, insert, select, update

from sshwarma.common.limits import PERMANENT_BAN_MINUTES
from sshwarma.common.units import MINUTE_MS
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, Forbidden
from sshwarma.world.events import WorldChanged
from sshwarma.world.reader import Hint
from sshwarma.world.schema import room_members
from sshwarma.world.store import Change

AccessMode = Literal["open", "invite", "private"]

MAX_NAMED_GRANTERS: Final = 4
"""Names of agents who can grant a right that a refusal lists."""


class Right(enum.StrEnum):
    """A permission that a verb may need. The value is the word people read."""

    ENTER = "enter"  # be in the room, look, read
    TALK = "talk"  # add to its log
    BUILD = "build"  # change its things, exits, equipment, text
    MODERATE = "moderate"  # decide who may do what in it
    CREATE = "create"  # make new rooms
    ADMIN = "admin"  # decide for the whole server
    OWN = "own"  # appoint admins, add models and MCP servers


SERVER_RIGHTS: Final = frozenset({Right.CREATE, Right.ADMIN, Right.OWN})
"""Rights on the server; all others are in a room."""


class TokenScope(enum.StrEnum):
    """How far a token lets its agent go; each scope includes those before it.

    Rights say what an agent may do; a scope can only narrow that.
    """

    READ = "read"  # look and listen
    ACT = "act"  # talk, move about, call tools
    BUILD = "build"  # everything the agent may do, but for approvals
    APPROVE = "approve"  # allow calls that wait for a person, too

    def allows(self, needed: TokenScope) -> bool:
        """Return whether a token of this scope may do what needs the other."""
        return _SCOPE_ORDER.index(self) >= _SCOPE_ORDER.index(needed)


_SCOPE_ORDER: Final = tuple(TokenScope)


def required_scope(right: Right | None) -> TokenScope:
    """Return the scope needed to use a right; READ for looking, which needs no right."""
    if right in (None, Right.ENTER):
        return TokenScope.READ
    return TokenScope.ACT if right is Right.TALK else TokenScope.BUILD


def widest_scope(*scopes: TokenScope) -> TokenScope:
    """Return the scope that allows what each of the scopes allows."""
    return max(scopes, key=_SCOPE_ORDER.index)


_SERVER_ROLE_RIGHTS: Final[Mapping[str, frozenset[Right]]] = {
    "owner": frozenset(Right),
    "admin": frozenset(Right) - {Right.OWN},
    "member": frozenset({Right.CREATE}),
    "guest": frozenset(),
}
VISITOR_RIGHTS: Final = frozenset({Right.ENTER, Right.TALK})
"""Rights of everybody in an open room."""

_ROOM_ROLE_RIGHTS: Final[Mapping[str, frozenset[Right]]] = {
    "owner": VISITOR_RIGHTS | {Right.BUILD, Right.MODERATE},
    "builder": VISITOR_RIGHTS | {Right.BUILD},
    "member": VISITOR_RIGHTS,
}


ROOM_ROLES: Final = tuple(_ROOM_ROLE_RIGHTS)


@dataclass(frozen=True, slots=True)
class Member:
    """The role, mute and ban of one agent in a room. Times are Unix milliseconds."""

    agent_id: str
    role: str | None = None
    muted_until: int | None = None
    banned_until: int | None = None
    reason: str = ""


def compute_rights(
    agent: Agent, mode: AccessMode, member: Member | None, now: int
) -> frozenset[Right]:
    """Return the rights of an agent in a room of that access mode."""
    of_server = _SERVER_ROLE_RIGHTS.get(agent.role, frozenset())
    if Right.ADMIN in of_server:
        return of_server
    if member is not None and (member.banned_until or 0) > now:
        return of_server
    in_room = _ROOM_ROLE_RIGHTS.get(member.role or "", frozenset()) if member else frozenset()
    if mode == "open":
        in_room |= VISITOR_RIGHTS
    if member is not None and (member.muted_until or 0) > now:
        in_room -= {Right.TALK}
    return of_server | in_room


def permission_denied_error(reason: str, *, ask: Sequence[str] = ()) -> Forbidden:
    """Return the refusal of what the caller has no right to.

    Args:
        reason: why, without a full stop: "needs the build right in den".
        ask: names of agents who can help.
    """
    return Forbidden(
        f"Permission denied: {reason}.",
        hint=f"Ask {', '.join(ask[:MAX_NAMED_GRANTERS])}." if ask else "",
    )


def missing_right_error(
    right: Right, room_name: str, granters: Sequence[str], purpose: str = ""
) -> Forbidden:
    """Return the refusal for a missing right: names the right and who can grant it.

    `purpose` says what needs it, if it is not the whole verb: "for a question of bob".
    """
    place = "on this server" if right in SERVER_RIGHTS else f"in {room_name}"
    requirement = f"needs the {right} right {place} {purpose}".rstrip()
    return permission_denied_error(requirement, ask=granters or ["an admin"])


def list_granters(
    right: Right, agents: Iterable[Agent], members: Mapping[str, Member]
) -> list[str]:
    """List the names of agents who can grant a right.

    Args:
        right: the right that is missing.
        agents: all agents.
        members: those of the room, for a right in it. Without an owner there, owners of the server
            grant it.
    """
    everyone = sorted(agents, key=lambda agent: agent.name)
    if right in SERVER_RIGHTS:
        roles = {"owner"} if right is Right.OWN else {"owner", "admin"}
        return [agent.name for agent in everyone if agent.role in roles]
    owner_ids = {member.agent_id for member in members.values() if member.role == "owner"}
    return [agent.name for agent in everyone if agent.id in owner_ids] or [
        agent.name for agent in everyone if agent.role == "owner"
    ]


def missing_role_error(
    agent: Agent, role: str, purpose: str, agents: Iterable[Agent], *, hint: Hint = ""
) -> Forbidden:
    """Return the refusal for a role on the server that is too low.

    Args:
        agent: who lacks the role.
        role: the lowest that suffices.
        purpose: what needs it: "to call git:log".
        agents: all agents; those who can give the role are named.
        hint: another way.
    """
    error = permission_denied_error(
        f"needs the role {role} on this server {purpose}; {agent.name} has {agent.role}",
        ask=list_granters(Right.ADMIN, agents, {}),
    )
    error.hints += (hint,)
    return error


def missing_scope_error(needed: TokenScope, scope: TokenScope) -> Forbidden:
    """Return the refusal for a token whose scope is too narrow."""
    error = permission_denied_error(f"needs the scope {needed}; this token has {scope}")
    error.hints = (f"Use a token with the scope {needed}.",)
    return error


def read_members(conn: Connection, room_id: str) -> dict[str, Member]:
    """Return the members, mutes and bans of a room, by agent id."""
    query = select(room_members).where(
        room_members.c.room_id == room_id, room_members.c.deleted_at.is_(None)
    )
    return {row.agent_id: _member_from_row(row) for row in conn.execute(query)}


def read_all_members(conn: Connection) -> dict[str, dict[str, Member]]:
    """Return the members, mutes and bans of all rooms, by room and agent id."""
    members: dict[str, dict[str, Member]] = {}
    query = select(room_members).where(room_members.c.deleted_at.is_(None))
    for row in conn.execute(query):
        members.setdefault(row.room_id, {})[row.agent_id] = _member_from_row(row)
    return members


def _member_from_row(row: Any) -> Member:
    return Member(row.agent_id, row.role, row.muted_until, row.banned_until, row.reason or "")


def set_member(
    tx: Change, room_id: str, agent_id: str, *, created_by: str | None, **values: object
) -> Member:
    """Set `role`, `muted_until`, `banned_until` or `reason` of an agent in a room.

    Raises:
        Conflict: if the room would lose its only owner.
    """
    if isinstance(reason := values.get("reason"), str):
        values["reason"] = replace_nul(reason)
    members = read_members(tx.conn, room_id)
    owners = [member.agent_id for member in members.values() if member.role == "owner"]
    if owners == [agent_id] and "role" in values and values["role"] != "owner":
        raise Conflict(
            "A room needs an owner, and this is the only one.", hint="Make another owner first."
        )
    key = (room_members.c.room_id == room_id, room_members.c.agent_id == agent_id)
    result = tx.conn.execute(update(room_members).where(*key).values(deleted_at=None, **values))
    if result.rowcount == 0:
        tx.conn.execute(
            insert(room_members).values(
                room_id=room_id,
                agent_id=agent_id,
                created_by=created_by,
                created_at=tx.now,
                **values,
            )
        )
    tx.publish_on_commit(WorldChanged(room_id))
    return read_members(tx.conn, room_id)[agent_id]


def muted_error(room_name: str, member: Member, now: int) -> Forbidden:
    """Return the refusal for an agent who is muted in a room."""
    duration = _format_minutes_left(member.muted_until or now, now, "for another ")
    return Forbidden(f"You are muted in {room_name}{duration}{_format_reason(member)}.")


def banned_error(room_name: str, member: Member, now: int) -> Forbidden:
    """Return the refusal for an agent who is banned from a room."""
    duration = _format_minutes_left(member.banned_until or now, now, "for another ")
    return Forbidden(f"You are banned from {room_name}{duration}{_format_reason(member)}.")


def describe_sanction(agent: Agent, room_name: str, member: Member | None, now: int) -> str:
    """Describe the ban or mute of an agent; "" without one.

    An example: "bob is muted in den for 60 min." An admin of the server keeps every right, and so
    has neither.
    """
    if member is None or Right.ADMIN in _SERVER_ROLE_RIGHTS.get(agent.role, frozenset()):
        return ""
    for sanction, end in (
        (f"banned from {room_name}", member.banned_until or 0),
        (f"muted in {room_name}", member.muted_until or 0),
    ):
        if end > now:
            duration = _format_minutes_left(end, now, "for ")
            return f"{agent.name} is {sanction}{duration}{_format_reason(member)}."
    return ""


def _format_reason(member: Member) -> str:
    return f": {member.reason.rstrip('.')}" if member.reason else ""


def _format_minutes_left(until: int, now: int, lead: str) -> str:
    """Return " for 5 min" with the words of `lead`, or " forever"."""
    minutes = max(1, round((until - now) / MINUTE_MS))
    # Treat more than half of PERMANENT_BAN_MINUTES as permanent: some time has already passed.
    return " forever" if minutes > PERMANENT_BAN_MINUTES // 2 else f" {lead}{minutes} min"
