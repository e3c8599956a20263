"""The verbs of `/room`: access to a room, its members, their roles, and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from sqlalchemy import Connection

from sshwarma.common.shorten import shorten_name
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import AgentName, Arg, CompletionRequest, Option, Word
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import DataRight
from sshwarma.verbs.thing_completion import MemberName
from sshwarma.verbs.views import Confirmation, draw_columns, view
from sshwarma.world import access, bag_reads, movement, rooms, things
from sshwarma.world.access import AccessMode, Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound
from sshwarma.world.ids import PERMANENT_ROOMS, now_ms
from sshwarma.world.reader import Hint, next_call
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

ROOM_OWNER_RIGHT: Final = DataRight(Right.ADMIN, "for a room that you do not own")


@dataclass(frozen=True, slots=True)
class RoomMember:
    """A member of a room, its role, and a note such as a ban."""

    name: str
    role: str
    note: str


@dataclass(frozen=True, slots=True)
class RoomAccess:
    """The access mode of a room, and its members."""

    room: str
    access: str
    members: tuple[RoomMember, ...]


@view(RoomAccess)
def draw_room_access(result: RoomAccess) -> Block:
    """Draw the access mode of a room, and its members with their roles."""
    meaning = {
        "open": "anyone may enter and talk",
        "invite": "everyone sees it, only members may enter",
        "private": "only members see it and may enter",
    }[result.access]
    title = "invite-only" if result.access == "invite" else result.access
    return block(
        line(("room", result.room), f" is {title}: {meaning}."),
        *draw_columns(
            (("name", member.name), member.role, ("dim", member.note)) for member in result.members
        ),
    )


room = group(
    "room",
    section="Access",
    default="show",
    doc="""Show or set who may enter this room and build in it.

    Anyone may enter an open room. Only members may enter other rooms, and only members see a
    private one.
    """,
)


@room.verb("show", needs=Right.ENTER, tool=False, examples=("/room", "/room show"))
async def show_access(caller: Caller) -> RoomAccess:
    """Show who may enter this room, and its members."""
    return await _read_access(caller)


@room.verb("open", needs=Right.MODERATE, tool=False, examples=("/room open",))
async def open_to_anyone(caller: Caller) -> RoomAccess:
    """Let anyone enter this room and talk."""
    return await _set_access(caller, "open")


@room.verb("invite", needs=Right.MODERATE, tool=False, examples=("/room invite",))
async def open_to_members(caller: Caller) -> RoomAccess:
    """Let only members enter this room; everyone sees it.

    Those here who are not members go to the lobby.
    """
    return await _set_access(caller, "invite")


@room.verb("private", needs=Right.MODERATE, tool=False, examples=("/room private",))
async def hide_room(caller: Caller) -> RoomAccess:
    """Let only members see this room and enter it.

    Those here who are not members go to the lobby.
    """
    return await _set_access(caller, "private")


@room.verb("owner", needs=Right.MODERATE, tool=False, examples=("/room owner bob",))
async def make_owner(caller: Caller, name: AgentName) -> RoomAccess:
    """Make somebody an owner of this room, who may moderate it.

    Args:
        name: the agent.
    """
    return await _set_role(caller, name, "owner")


@room.verb("builder", needs=Right.MODERATE, tool=False, examples=("/room builder bob",))
async def make_builder(caller: Caller, name: AgentName) -> RoomAccess:
    """Let somebody build in this room.

    Args:
        name: the agent.
    """
    return await _set_role(caller, name, "builder")


@room.verb("member", needs=Right.MODERATE, tool=False, examples=("/room member bob",))
async def make_member(caller: Caller, name: AgentName) -> RoomAccess:
    """Make somebody a member of this room.

    Args:
        name: the agent.
    """
    return await _set_role(caller, name, "member")


@room.verb("remove", needs=Right.MODERATE, tool=False, examples=("/room remove bob",))
async def remove_role(caller: Caller, name: MemberName) -> RoomAccess:
    """Take away somebody's role in this room.

    They must leave, unless the room is open.

    Args:
        name: the agent.
    """
    return await _set_role(caller, name, None)


async def complete_this_room(request: CompletionRequest) -> list[Option]:
    """List the caller's room, if it can be deleted."""
    here = await request.caller.room()
    return [] if here.id in PERMANENT_ROOMS else [(here.name, "this room")]


ThisRoomName: TypeAlias = Annotated[str, Arg(complete=complete_this_room)]


@room.verb("delete", needs=Right.MODERATE, tool=False, examples=("/room delete workshop",))
async def delete_room(caller: Caller, name: ThisRoomName) -> Confirmation:
    """Delete this room.

    Everyone here goes to the lobby. An owner of the room or an admin can restore it.

    Args:
        name: the name of this room, to confirm.
    """
    here = await caller.room()
    if here.id in PERMANENT_ROOMS:
        raise Conflict(f"{here.name} cannot be deleted.")
    if name != here.name:
        raise Invalid(
            f"{shorten_name(name)} is not the name of this room, which is {here.name}.",
            hint="To confirm, give the name of this room. Everyone in it goes to the lobby.",
        )

    await caller.change(lambda tx: things.delete_thing(tx, things.get_live_thing(tx.conn, here.id)))
    reason = f"{here.name} was deleted by {caller.agent.name}."
    movement.evict_everyone(caller.world, here.id, reason)
    return Confirmation(
        f"Deleted {here.name}.", next_call("{} brings it back.", "room restore", name=here.name)
    )


@room.verb(
    "restore",
    also_needs=(ROOM_OWNER_RIGHT,),
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/room restore workshop",),
)
async def restore_room(caller: Caller, name: Word) -> Confirmation:
    """Bring back a deleted room, with its log, things, exits and members.

    Restores the newest deleted room of that name that you owned; an admin restores any.

    Args:
        name: the name that the room had.
    """
    unknown = NotFound(
        f"Deleted room {shorten_name(name)} not found among the rooms that you owned."
    )
    deleted_room, is_own = await _find_deleted_room(caller, name)
    if deleted_room is None:
        raise unknown
    try:
        await ROOM_OWNER_RIGHT.require(caller, caller.agent.id if is_own else None)
    except Forbidden:
        raise unknown from None  # it may have been private
    await caller.change(lambda tx: rooms.restore_room(tx, deleted_room))
    return Confirmation(
        f"Restored {deleted_room.name}.",
        next_call("Enter it with {}.", "join", room=deleted_room.name),
    )


async def suggest_room_restore(caller: Caller, name: str) -> Hint:
    """Suggest to restore the deleted room of a name, if the caller owned it; else ""."""
    _, is_own = await _find_deleted_room(caller, name)
    return next_call("Did you mean the room? {}", "room restore", name=name) if is_own else ""


async def _find_deleted_room(caller: Caller, name: str) -> tuple[Thing | None, bool]:
    """Return the newest deleted room of a name, and whether the caller owned it."""

    def read(conn: Connection) -> tuple[Thing | None, Mapping[str, access.Member]]:
        thing = bag_reads.find_last_deleted(conn, ["rooms"], name.lower())
        return thing, access.read_members(conn, thing.id) if thing is not None else {}

    thing, members = await caller.world.store.read(read)
    owner = members.get(caller.agent.id)
    return thing, owner is not None and owner.role == "owner"


async def _set_access(caller: Caller, mode: AccessMode) -> RoomAccess:
    here = await caller.room()
    if here.id in PERMANENT_ROOMS and mode != "open":
        raise Conflict(f"{here.name} is always open to everyone.")
    if mode == here.mode:
        return await _read_access(caller)

    await caller.change(
        lambda tx: things.set_metadata(tx, here.id, access=mode), f"made the room {mode}"
    )
    reason = f"Only members may be in {here.name} now. Ask {caller.agent.name}."
    await movement.evict_strangers(caller.world, here.id, reason)
    return await _read_access(caller)


async def _set_role(caller: Caller, name: str, role: str | None) -> RoomAccess:
    here = await caller.room()
    agent = caller.world.agents.find(name)
    member = here.members.get(agent.id)
    old_role = member.role if member is not None else None
    if old_role is None and role is None:
        raise Conflict(
            f"{agent.name} has no role in {here.name}.",
            hint=next_call("{} lists the members.", "room show"),
        )
    if old_role == role:
        return await _read_access(caller)

    def set_role(tx: Change) -> None:
        access.set_member(tx, here.id, agent.id, created_by=caller.agent.id, role=role)

    notice = f"made {agent.name} {role}" if role else f"took {agent.name}'s role away"
    await caller.change(set_role, notice)
    if role is None:
        reason = f"You are no longer a member of {here.name}."
        await movement.evict_if_closed(caller.world, agent.id, here.id, reason)
    return await _read_access(caller)


async def _read_access(caller: Caller) -> RoomAccess:
    here, now = await caller.room(), now_ms()
    members = []
    for room_member in here.members.values():
        notes = []
        if (room_member.muted_until or 0) > now:
            notes.append("muted")
        if (room_member.banned_until or 0) > now:
            notes.append("banned")
        if room_member.role or notes:
            members.append(
                RoomMember(
                    caller.world.agents.name_of(room_member.agent_id),
                    room_member.role or "",
                    ", ".join(notes),
                )
            )
    return RoomAccess(here.name, here.mode, tuple(sorted(members, key=lambda member: member.name)))
