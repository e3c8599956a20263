"""Access: who may enter a room and do what in it; keeping order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import AgentName, Minutes, Text, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation, draw_columns, view
from sshwarma.world import access, rows, things
from sshwarma.world.access import PERMANENT_BAN_MINUTES, ROOM_ROLES, AccessMode, Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound
from sshwarma.world.events import AgentEvicted
from sshwarma.world.ids import now_ms
from sshwarma.world.store import Change

MINUTE_MS = 60_000

RoomAction = Literal[
    "show", "open", "invite", "private", "owner", "builder", "member", "remove", "delete"
]


@dataclass(frozen=True, slots=True)
class RoomMember:
    name: str
    role: str
    note: str


@dataclass(frozen=True, slots=True)
class RoomAccess:
    room: str
    access: str
    members: tuple[RoomMember, ...]


@view(RoomAccess)
def draw_room_access(result: RoomAccess) -> Block:
    meaning = {
        "open": "anyone may enter and talk",
        "invite": "everyone sees it, members may enter",
        "private": "only members see it and may enter",
    }[result.access]
    return block(
        line(("room", result.room), f" is {result.access}: {meaning}."),
        *draw_columns(
            (("name", member.name), member.role, ("dim", member.note)) for member in result.members
        ),
    )


@verb(
    "room",
    group="Access",
    needs=Right.ENTER,
    tool=False,
    examples=("/room", "/room private", "/room builder bob", "/room remove bob"),
)
async def room(
    caller: Caller, what: RoomAction = "show", name: AgentName | None = None
) -> RoomAccess | Confirmation:
    """See and change who may enter this room and build in it

    open: anyone may enter. invite: only members enter. private: only members know of it.
    owner, builder, member: give somebody that role. remove: take it away. delete: close the room;
    /restore does not bring rooms back, an administrator does.

    what: show, open, invite, private, owner, builder, member, remove or delete.
    name: who, for the last five but delete; for delete, the room's name, to be sure.
    """
    here = await caller.room()
    if what == "show":
        return await _read_room_access(caller)
    await caller.require(Right.MODERATE)
    if what in get_args(AccessMode):
        if here.id in ("lobby", "home") and what != "open":
            raise Conflict(f"{here.name} is open to everyone, always.")
        await caller.change(
            lambda tx: things.set_metadata(tx, here.id, access=what), f"made the room {what}"
        )
        return await _read_room_access(caller)
    if what == "delete":
        return await _delete_room(caller, name)
    if name is None:
        raise Invalid(f"Say who: /room {what} NAME.")
    other = caller.world.agents.find(name)
    role = what if what in ROOM_ROLES else None

    def set_role(tx: Change) -> None:
        access.set_member(tx, here.id, other.id, created_by=caller.agent.id, role=role)
        if role is None and here.mode != "open":
            tx.emit(AgentEvicted(other.id, f"You are no longer a member of {here.name}.", here.id))

    told = f"made {other.name} {role}" if role else f"took {other.name}'s role away"
    await caller.change(set_role, told)
    return await _read_room_access(caller)


@verb(
    "kick",
    group="Access",
    needs=Right.MODERATE,
    tool=False,
    examples=("/kick bob", "/kick bob cool down"),
)
async def kick(caller: Caller, name: AgentName, reason: Text | None = None) -> Confirmation:
    """Put somebody out of this room

    They go to the lobby and may come back; /ban keeps them out.

    name: who.
    reason: what they and the room are told.
    """
    here = await caller.room()
    other = await _find_lower_ranked(caller, name)
    if not any(link.room_id == here.id for link in caller.world.presence.links_of(other.id)):
        raise NotFound(f"{other.name} is not in {here.name}.")
    if here.id == "lobby":
        raise Conflict("The lobby is where people are put.", hint="/mute or /ban work here.")
    why = f": {reason}" if reason else "."

    def work(tx: Change) -> None:
        rows.append_row(
            tx, here.id, "notice", f"{caller.agent.name} put {other.name} out{why}", author_id=None
        )
        tx.emit(
            AgentEvicted(other.id, f"{caller.agent.name} put you out of {here.name}{why}", here.id)
        )

    await caller.change(work)
    return Confirmation(f"{other.name} was put out.")


@verb(
    "mute",
    group="Access",
    needs=Right.MODERATE,
    tool=False,
    examples=("/mute bob", "/mute bob 10", "/mute bob off"),
)
async def mute(
    caller: Caller, name: AgentName, minutes: Word = "60", reason: Text | None = None
) -> Confirmation:
    """Stop somebody from talking in this room

    name: who.
    minutes: for how long, 60 if left out; off ends it.
    reason: what they are told.
    """
    return await _mute_or_ban(caller, name, minutes, reason, "muted")


@verb(
    "ban",
    group="Access",
    needs=Right.MODERATE,
    tool=False,
    examples=("/ban bob", "/ban bob 1440 spam", "/ban bob off"),
)
async def ban(
    caller: Caller, name: AgentName, minutes: Word = "forever", reason: Text | None = None
) -> Confirmation:
    """Keep somebody out of this room

    name: who.
    minutes: for how long, or forever if left out; off ends it.
    reason: what they are told.
    """
    return await _mute_or_ban(caller, name, minutes, reason, "banned")


async def _mute_or_ban(
    caller: Caller, name: str, minutes: str, reason: str | None, how: Literal["muted", "banned"]
) -> Confirmation:
    here = await caller.room()
    other = await _find_lower_ranked(caller, name)
    column = f"{how}_until"
    if minutes == "off":
        await caller.change(
            lambda tx: access.set_member(
                tx, here.id, other.id, created_by=caller.agent.id, **{column: None}
            )
        )
        return Confirmation(f"{other.name} is no longer {how} in {here.name}.")
    length = _parse_minutes(minutes)
    until = now_ms() + length * MINUTE_MS
    why = f": {reason}" if reason else "."

    def work(tx: Change) -> None:
        access.set_member(
            tx, here.id, other.id, created_by=caller.agent.id, reason=reason, **{column: until}
        )
        rows.append_row(
            tx, here.id, "notice", f"{caller.agent.name} {how} {other.name}{why}", author_id=None
        )
        if how == "banned" and here.id != "lobby":
            tx.emit(AgentEvicted(other.id, f"You are banned from {here.name}{why}", here.id))

    await caller.change(work)
    span = "for good" if length >= PERMANENT_BAN_MINUTES else f"for {length} min"
    return Confirmation(f"{other.name} is {how} in {here.name} {span}.")


def _parse_minutes(text: Minutes | str) -> int:
    if text == "forever":
        return PERMANENT_BAN_MINUTES
    digits = str(text)
    if not digits.isdecimal() or len(digits) > 9 or not 1 <= int(digits) <= PERMANENT_BAN_MINUTES:
        raise Invalid(
            f"{str(text)[:40]} is not a number of minutes.", hint="Say a number, forever or off."
        )
    return int(text)


async def _find_lower_ranked(caller: Caller, name: str) -> Agent:
    """An agent whom the caller may put out: not themselves, and nobody with as much to say."""
    other = caller.world.agents.find(name)
    if other.id == caller.agent.id:
        raise Invalid("That is you.", hint="/leave goes to the lobby.")
    now = now_ms()
    here = await caller.room()
    if Right.ADMIN in here.rights_of(other, now) and caller.agent.role != "owner":
        raise Forbidden(f"{other.name} is an administrator.")
    mine, theirs = here.rights_of(caller.agent, now), here.rights_of(other, now)
    if Right.MODERATE in theirs and Right.ADMIN not in mine:
        raise Forbidden(f"{other.name} is an owner of {here.name} too.")
    return other


async def _delete_room(caller: Caller, name: str | None) -> Confirmation:
    here = await caller.room()
    if here.id in ("lobby", "home"):
        raise Conflict(f"{here.name} cannot be deleted.")
    if name != here.name:
        raise Invalid(
            "Deleting a room puts everyone out.", hint=f"To be sure, say /room delete {here.name}"
        )

    def work(tx: Change) -> None:
        things.delete_thing(tx, things.get_live_thing(tx.conn, here.id))
        for link in {link.agent_id for link in caller.world.presence if link.room_id == here.id}:
            tx.emit(AgentEvicted(link, f"{here.name} was deleted by {caller.agent.name}.", here.id))

    await caller.change(work)
    return Confirmation(f"Deleted {here.name}.")


async def _read_room_access(caller: Caller) -> RoomAccess:
    here, now = await caller.room(), now_ms()
    members = []
    for known in here.members.values():
        notes = []
        if (known.muted_until or 0) > now:
            notes.append("muted")
        if (known.banned_until or 0) > now:
            notes.append("banned")
        if known.role or notes:
            members.append(
                RoomMember(
                    caller.world.agents.name_of(known.agent_id), known.role or "", ", ".join(notes)
                )
            )
    return RoomAccess(here.name, here.mode, tuple(sorted(members, key=lambda member: member.name)))
