"""Rooms of an import: made, or found again by their metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_NAME_CHARACTERS
from sshwarma.imports.items import RoomItem
from sshwarma.imports.report import ImportReport
from sshwarma.world import names, rooms, things
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.portable_sql import extract_text
from sshwarma.world.schema import room_members
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

IMPORT_KEY: Final = "imported"
"""Key of a room's metadata that says where it is from: the session, its origin, and the greatest id
of a row of `usage`."""

MAX_NAMES_TRIED: Final = 10_000
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class SourceProjects:
    """The projects of a source.

    Attributes:
        paths: canonical paths, by the paths in the source.
        start: that of the directory in which the server was started; "" without a server.
    """

    paths: Mapping[str, str]
    start: str = ""


@dataclass
class ImportRun:
    """One step while it is stored: the change, for whom it is, and what it finds."""

    tx: Change
    person: Agent
    model: Agent
    thing_bytes: int
    projects: SourceProjects
    report: ImportReport = field(default_factory=ImportReport)
    rooms: dict[str, Thing] = field(default_factory=dict)
    known: dict[str, list[tuple[str, str]]] | None = None
    """Rooms of imports for the person: origins and ids, by sessions; None until they are read."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The number to try next for a room, by the beginning of its name."""


def take_room(run: ImportRun, item: RoomItem) -> None:
    """Make the room of a session, unless there is one; count it."""
    known = find_room(run, item)
    room = get_or_create_room(run, item)
    run.report.count("rooms", "new" if known is None else "known")
    run.report.name_room(item.session, room.name)


def find_room(run: ImportRun, item: RoomItem) -> Thing | None:
    """Return the live room that an earlier import for the person made."""
    if run.known is None:
        run.known = _read_known(run.tx.conn, run.person.id)
    for origin, room_id in run.known.get(item.session, ()):
        if origin in (item.origin, ""):
            return things.get_live_thing(run.tx.conn, room_id)
    return None


def _read_known(conn: Connection, person_id: str) -> dict[str, list[tuple[str, str]]]:
    """Return the live rooms of imports for a person, by their sessions.

    Each with its origin and id. Only those that the person still owns: what is imported into a room
    of others would be read there.
    """
    session = extract_text(things_table.c.metadata, IMPORT_KEY, "session")
    origin = extract_text(things_table.c.metadata, IMPORT_KEY, "origin")
    query = (
        select(session, origin, things_table.c.id)
        .join(room_members, room_members.c.room_id == things_table.c.id)
        .where(
            things_table.c.created_by == person_id,
            room_members.c.agent_id == person_id,
            room_members.c.role == "owner",
            room_members.c.deleted_at.is_(None),
            things_table.c.parent_id == "rooms",
            things_table.c.kind == "room",
            things_table.c.deleted_at.is_(None),
            session.is_not(None),
        )
        .order_by(things_table.c.created_at, things_table.c.id)
    )
    known: dict[str, list[tuple[str, str]]] = {}
    for name, first, room_id in conn.execute(query):
        known.setdefault(name, []).append((first, room_id))
    return known


def get_or_create_room(run: ImportRun, item: RoomItem) -> Thing:
    """Return the room of a session; make it if it is missing."""
    room = find_room(run, item)
    if room is None:
        values: dict[str, Any] = {
            "access": "private",
            "context_size": item.context_size,
            IMPORT_KEY: {"source": "slop", "session": item.session, "origin": item.origin},
        }
        room = things.set_metadata(run.tx, _create_room(run, item).id, **values)
        if run.known is not None:
            run.known.setdefault(item.session, []).append((item.origin, room.id))
    elif not room.metadata[IMPORT_KEY]["origin"] and item.origin:
        room = set_import_fields(run, room, origin=item.origin)
    run.rooms[item.session] = room
    return room


def set_import_fields(run: ImportRun, room: Thing, **fields: Any) -> Thing:
    """Set what the metadata of a room says of its source."""
    present = things.get_live_thing(run.tx.conn, room.id).metadata[IMPORT_KEY]
    known = {IMPORT_KEY: {**present, **fields}}
    run.rooms[present["session"]] = room = things.set_metadata(
        run.tx, room.id, structural=False, **known
    )
    return room


def _create_room(run: ImportRun, item: RoomItem) -> Thing:
    """Make a room whose name is near the id of its session."""
    stem = make_name(item.session)
    for number in range(run.numbers.get(stem, 1), MAX_NAMES_TRIED):
        run.numbers[stem] = number
        ending = "" if number == 1 else f"-{number}"
        name = stem[: MAX_NAME_CHARACTERS - len(ending)] + ending
        if things.find_child(run.tx.conn, "rooms", name, "room") is not None:
            continue
        try:
            return rooms.create_room(
                run.tx, name, run.person, description=f"Imported from std::slop: {item.session}"
            )
        except Conflict:  # the name of an agent or a namespace
            continue
    raise Conflict(f"There is no free name for the session {stem}.")


def make_name(given: str) -> str:
    """Return the name of a room or a skill for a name of the source."""
    name = _NOT_IN_NAMES.sub("-", given.lower()).strip("-_")
    if not name or not name[0].isalpha():
        name = f"slop-{name}".rstrip("-")
    name = name[:MAX_NAME_CHARACTERS]
    try:
        return names.check_name(name, "room")
    except Invalid:  # a reserved word
        return f"slop-{name}"
