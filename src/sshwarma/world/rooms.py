"""Rooms as values: text, exits, bag and access; and creating rooms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

import structlog
from sqlalchemy import Connection, func, insert, literal, select, update

from sshwarma.common.limits import MAX_SHOWN_BAG_THINGS, MIN_COPIED_THING_BYTES
from sshwarma.world import access, equipment, exits, names, things
from sshwarma.world.access import AccessMode, Member, Right
from sshwarma.world.agents import Agent
from sshwarma.world.builtin_containers import DEFAULTS_ID
from sshwarma.world.errors import Conflict, NotFound
from sshwarma.world.events import WorldChanged
from sshwarma.world.exits import Exit
from sshwarma.world.ids import HOME_ID, new_id
from sshwarma.world.portable_sql import byte_length, table_of_pairs
from sshwarma.world.reader import next_call
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.stored_json import UnreadableError, take_field, take_word, take_words
from sshwarma.world.things import Thing

_COPIED_COLUMNS: Final = ("kind", "name", "description", "content", "uri", "metadata")

log = structlog.get_logger(__name__)

BAG_KINDS: Final = ("data", "reference", "tool", "mcp", "toolset")


@dataclass(frozen=True, slots=True)
class Room:
    """A room, computed once per change of the world and shared by all who look."""

    id: str
    name: str
    description: str = ""
    vibe: str = ""
    mode: AccessMode = "open"
    models_can_move: bool = True  # whether models may leave it
    context_size: int | None = None  # turns that models see; None for the default
    model_ids: frozenset[str] | None = None  # models that may be called here; None for all
    members: Mapping[str, Member] = field(default_factory=dict)
    exits: tuple[Exit, ...] = ()
    bag: tuple[Thing, ...] = ()  # the first MAX_SHOWN_BAG_THINGS, by name
    bag_size: int = 0

    def rights_of(self, agent: Agent, *, now: int) -> frozenset[Right]:
        """Return the rights of an agent in the room at the time `now` (ms)."""
        return access.compute_rights(agent, self.mode, self.members.get(agent.id), now)

    def describe_sanction(self, agent: Agent, now: int) -> str:
        """Describe why an agent may not talk in a room: ban or mute; "" without one."""
        return access.describe_sanction(agent, self.name, self.members.get(agent.id), now)

    def explain_silence(self, model: Agent, now: int) -> str:
        """Return why a model does not answer here at the time `now` (ms); "" if it does."""
        sanction = self.describe_sanction(model, now)
        if sanction:
            return sanction
        if self.model_ids is not None and model.id not in self.model_ids:
            return f"{model.name} does not answer in {self.name}: the room names its models."
        if model.rooms and self.name not in model.rooms:
            return f"{model.name} does not answer in {self.name}: an owner named its rooms."
        return ""

    def explain_absence(self, maker: Agent | None, now: int) -> str:
        """Return why what an agent made waits at the time `now` (ms); "" if it need not.

        It has the rights of its maker, who must be let in.
        """
        if maker is None:
            return "who made it is gone"
        if maker.disabled:
            return f"the account of {maker.name} is disabled"
        may_enter = Right.ENTER in self.rights_of(maker, now=now)
        return "" if may_enter else f"{maker.name} may not enter {self.name}"

    @property
    def member_ids(self) -> frozenset[str]:
        """The ids of the agents that have a role in the room."""
        return frozenset(member.agent_id for member in self.members.values() if member.role)

    def is_open_to_members_of(self, other: Room) -> bool:
        """Return whether all who may enter another room by its rules may enter this one."""
        if self.mode == "open" or self.id == other.id:
            return True
        return other.mode != "open" and other.member_ids <= self.member_ids


def read_room(conn: Connection, room_id: str) -> Room:
    """Return a live room by id.

    Raises:
        NotFound: if it was deleted.
    """
    thing = things.get_thing(conn, room_id)
    if thing is None or thing.deleted_at is not None or thing.kind != "room":
        raise NotFound("That room was deleted.")
    return _room_from_thing(conn, thing)


def read_rooms(conn: Connection) -> list[Room]:
    """Every live room, by name; without its bag and exits, for lists."""
    room_things = [
        *things.read_children(conn, "rooms", "room"),
        things.get_live_thing(conn, HOME_ID),
    ]
    members = access.read_all_members(conn)  # at once: there may be thousands of rooms
    return [
        _room_without_bag(thing, members.get(thing.id, {}))
        for thing in sorted(room_things, key=lambda thing: thing.name)
    ]


def read_rooms_by_id(conn: Connection, ids: Iterable[str]) -> dict[str, Room]:
    """Return those of some rooms that are live; without their bags and exits."""
    found = (things.get_thing(conn, room_id) for room_id in ids)
    return {
        thing.id: _room_without_bag(thing, access.read_members(conn, thing.id))
        for thing in found
        if thing is not None and thing.kind == "room" and thing.deleted_at is None
    }


def count_rooms(conn: Connection) -> int:
    """Return the number of live rooms, private ones included."""
    query = select(func.count()).where(
        things_table.c.parent_id == "rooms",
        things_table.c.kind == "room",
        things_table.c.deleted_at.is_(None),
    )
    return conn.execute(query).scalar_one() + 1  # the lobby stands elsewhere


def find_room_id(conn: Connection, name: str) -> str | None:
    """Return the id of the live room of that name."""
    if name == HOME_ID:
        return HOME_ID
    room = things.find_child(conn, "rooms", name, "room")
    return room.id if room else None


def create_room(tx: Change, name: str, owner: Agent, *, description: str = "") -> Thing:
    """Create a room that its creator owns, equipped as `defaults` is now.

    Raises:
        Invalid: if the name is not valid.
        Conflict: if the name is taken.
    """
    _check_room_name(tx, name, owner)
    room = things.create_thing(
        tx, "rooms", "room", name, description=description, created_by=owner.id
    )
    equipment.copy_equipment(tx, DEFAULTS_ID, room.id)
    access.set_member(tx, room.id, owner.id, created_by=owner.id, role="owner")
    return room


def rename_room(tx: Change, room: Room, name: str, by: Agent) -> Thing:
    """Give a room another name. Its tools keep theirs: who calls this renames them.

    Raises:
        Invalid: if the name is not valid.
        Conflict: if the name is taken.
    """
    _check_room_name(tx, name, by)
    return things.update_thing(tx, room.id, name=name)


def fork_room(tx: Change, source_id: str, name: str, owner: Agent) -> Thing:
    """Create a room like another: text, equipment, exits out, data and references.

    Data and references are copied. The log, the members and the exits into it are not copied.

    Raises:
        Invalid, Conflict: as `create_room`.
    """
    _check_room_name(tx, name, owner)
    source = things.get_live_thing(tx.conn, source_id)
    metadata: dict[str, Any] = {
        key: source.metadata[key]
        for key in ("vibe", "nav", "access", "models")
        if key in source.metadata
    }
    room = things.create_thing(
        tx,
        "rooms",
        "room",
        name,
        description=source.description,
        metadata={**metadata, "forked_from": source.id},
        created_by=owner.id,
    )
    copy_texts(tx, source_id, room.id, owner.id)
    equipment.copy_equipment(tx, source_id, room.id)
    access.set_member(tx, room.id, owner.id, created_by=owner.id, role="owner")
    exits.copy_exits(tx, source_id, room.id, owner.id)
    return room


def count_copied_bytes(conn: Connection, room_id: str) -> int:
    """Return the bytes of what a fork of a room copies: texts, references, tools."""
    texts = (things_table.c.name, *(things_table.c[name] for name in _COPIED_COLUMNS[2:]))
    sizes = (func.coalesce(byte_length(column), 0) for column in texts)
    size = sum(sizes, literal(MIN_COPIED_THING_BYTES))
    query = select(func.coalesce(func.sum(size), 0)).where(
        things_table.c.parent_id == room_id,
        things_table.c.kind.in_(("data", "reference", "tool")),
        things_table.c.deleted_at.is_(None),
    )
    return int(conn.execute(query).scalar_one())


def copy_texts(tx: Change, source_id: str, room_id: str, owner_id: str) -> None:
    """Copy the data and references in a bag to a new one.

    One statement copies all, because a bag may have thousands and all other changes wait.
    """
    source = things_table.c
    found = select(source.id).where(
        source.parent_id == source_id,
        source.kind.in_(("data", "reference")),
        source.deleted_at.is_(None),
    )
    ids = table_of_pairs({old_id: new_id() for old_id in tx.conn.scalars(found)})
    new_columns = {
        "id": ids.c.value,
        "parent_id": literal(room_id),
        "created_by": literal(owner_id),
        "created_at": literal(tx.now),
        "updated_at": literal(tx.now),
    }
    texts = select(*(source[name] for name in _COPIED_COLUMNS), *new_columns.values()).where(
        source.id == ids.c.key
    )
    columns = [*_COPIED_COLUMNS, *new_columns]
    tx.conn.execute(insert(things_table).from_select(columns, texts, include_defaults=False))
    tx.publish_on_commit(WorldChanged(room_id))


def restore_room(tx: Change, room: Thing) -> None:
    """Restore a deleted room, with what was deleted in it since then as garbage.

    Raises:
        Conflict: if its name was taken in the meantime.
    """
    things.restore_thing(tx, room)
    tx.conn.execute(
        update(things_table)
        .where(things_table.c.parent_id == room.id, things_table.c.deleted_at >= room.deleted_at)
        .values(deleted_at=None, updated_at=tx.now)
    )


def _check_room_name(tx: Change, name: str, owner: Agent) -> None:
    """Raise unless a room of that owner can have that name.

    Only an agent itself may name a room after it.

    Raises:
        Invalid, Conflict: if the name is not valid, or taken.
    """
    names.check_name(name, "room")
    room_id = find_room_id(tx.conn, name)
    if room_id is not None:
        rights = read_room(tx.conn, room_id).rights_of(owner, now=tx.now)
        if Right.ENTER not in rights:
            raise Conflict(f"The name {name} is taken.")  # a private room is not named as one
        raise Conflict(
            f"A room named {name} already exists.",
            hint=next_call("Enter it with {}.", "join", room=name),
        )
    agent = things.find_child(tx.conn, "agents", name, "agent")
    if agent is not None and agent.id != owner.id:
        raise Conflict(
            f"Only the agent {name} can name a room {name}.",
            hint="Choose another name.",
        )
    namesake = things.find_by_qualified_name(tx.conn, name)
    if namesake is not None:  # their tools would have the same names
        raise Conflict(
            f"{name} is the name of {things.describe_kind(namesake.kind)}.",
            hint="Choose another name.",
        )


def _room_from_thing(conn: Connection, thing: Thing) -> Room:
    bag = things.read_children(conn, thing.id, *BAG_KINDS, limit=MAX_SHOWN_BAG_THINGS, texts=False)
    size = len(bag)
    if size == MAX_SHOWN_BAG_THINGS:
        size = conn.execute(
            select(func.count()).where(
                things_table.c.parent_id == thing.id,
                things_table.c.kind.in_(BAG_KINDS),
                things_table.c.deleted_at.is_(None),
            )
        ).scalar_one()
    return replace(
        _room_without_bag(thing, access.read_members(conn, thing.id)),
        exits=exits.read_exits(conn, thing.id),
        bag=tuple(bag),
        bag_size=size,
    )


def parse_room(thing: Thing, members: Mapping[str, Member]) -> Room:
    """Return the room that a thing stores, without its bag and exits.

    Raises:
        UnreadableError: if it has a field that no version writes.
    """
    if not thing.is_readable:
        raise UnreadableError("its metadata cannot be read")
    meta = thing.metadata
    size = meta.get("context_size")
    return Room(
        id=thing.id,
        name=thing.name,
        description=thing.description,
        vibe=take_field(meta, "vibe", str, ""),
        mode=take_word(meta, "access", get_args(AccessMode), "open"),
        models_can_move=meta.get("nav", "on") != "off",
        context_size=None if size is None else take_field(meta, "context_size", int, 0),
        model_ids=take_words(meta, "models"),
        members=members,
    )


def _room_without_bag(thing: Thing, members: Mapping[str, Member]) -> Room:
    """Return a room without its bag and exits; a private one if it cannot be read."""
    try:
        return parse_room(thing, members)
    except UnreadableError as error:
        log.error("an unreadable room is treated as private", room=thing.name, reason=str(error))
        return Room(thing.id, thing.name, mode="private", members=members)
