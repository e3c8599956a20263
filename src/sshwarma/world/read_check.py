"""The check that a server could read a database, by the readers of the server.

It can come from anywhere, and SQLite stores any value in any column. It is upgraded and started in
one transaction, which is never committed; all is read that a start reads, and what lists read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from sshwarma.common.shorten import shorten_text
from sshwarma.common.times import format_iso
from sshwarma.world import (
    agents,
    audit,
    invites,
    last_use,
    overrides,
    room_states,
    rooms,
    rows,
    skills,
    tokens,
)
from sshwarma.world.access import ROOM_ROLES, read_members
from sshwarma.world.bootstrap import BuiltinToolSpec, start_world
from sshwarma.world.identity import read_world_id
from sshwarma.world.ids import HOME_ID
from sshwarma.world.migrate import run_migrations
from sshwarma.world.schema import invites as invites_table
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.schema import things as things_table
from sshwarma.world.schema import tokens as tokens_table
from sshwarma.world.sqlite_dialect import SqliteWriter
from sshwarma.world.store import Change
from sshwarma.world.stored_json import UnreadableError, read_object
from sshwarma.world.things import Thing, thing_from_row

PAGE_ROWS: Final = 200
"""Rows of the audit and of each log that are read: as many as a list shows, and more."""

STACK_FRAMES: Final = 400
"""Levels of calls below which all is read: JSON of many levels must be readable anywhere."""

Step = tuple[str, Callable[[], object]]
"""What is read, as a message names it, and the reading."""


def find_unreadable(
    conn: Connection, check: Callable[[], None], more: Sequence[Step] = ()
) -> str | None:
    """Return what of a world cannot be read, as a clause, or None.

    Args:
        conn: to a database of the newest schema; nothing is changed.
        check: called again and again; what it raises ends the search.
        more: what other parts of the program read.

    Raises:
        OSError: if the disk is full or fails.
    """
    for name, read in (*_list_steps(conn), *more):
        check()
        if (reason := _try_reading(read, name)) is not None:
            return reason
    return None


def find_failing_start(
    conn: Connection, tools: Sequence[BuiltinToolSpec], *, is_newest: bool
) -> str | None:
    """Upgrade and start a world in an open transaction; what fails, or None.

    The caller rolls it back.

    Raises:
        OSError: if the disk is full or fails.
    """

    def start() -> None:
        if not is_newest:
            run_migrations(conn)
        start_world(Change(SqliteWriter(conn)), tools)

    return _try_reading(start, "what a server needs at its start")


def _list_steps(conn: Connection) -> list[Step]:
    """Return what a start reads, and what lists read."""
    return [
        ("the world", lambda: read_world_id(conn)),
        ("the things", lambda: _read_things(conn)),
        ("the list of agents", lambda: (agents.read_agents(conn), agents.read_removed_names(conn))),
        ("the last use of keys", lambda: _read_last_uses(conn)),
        ("the rooms", lambda: _read_rooms(conn)),
        ("the tokens", lambda: _read_tokens(conn)),
        ("the invites", lambda: _read_invites(conn)),
        ("the audit", lambda: _read_audit(conn)),
        ("the decisions about tools", lambda: overrides.read_overrides(conn)),
        ("the skills", lambda: skills.read_skills(conn)),
        ("the directories of rooms", lambda: room_states.read_directories(conn)),
        ("the logs", lambda: _read_logs(conn)),
    ]


def _try_reading(read: Callable[[], object], name: str) -> str | None:
    """Return what cannot be read, and why, or None.

    Raises:
        OSError: if the disk is full or fails.
    """
    try:
        _call_below(STACK_FRAMES, read)
    except DBAPIError as error:
        name = str(getattr(error.orig, "sqlite_errorname", ""))
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_INTERRUPT")):
            raise OSError(f"The check of the database failed: {error.orig}.") from error
        return shorten_text(f"{name} cannot be read: {error.orig}")
    except UnreadableError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - whatever a server would fail with
        return shorten_text(f"{name} cannot be read: {type(error).__name__}: {error}")
    return None


def _call_below(frames: int, read: Callable[[], object]) -> None:
    """Call a function below some levels of calls."""
    if frames:
        _call_below(frames - 1, read)
    else:
        read()


def _read_things(conn: Connection) -> None:
    for row in conn.execute(select(things_table)).mappings():
        thing = thing_from_row(row)
        try:
            read_object(row["metadata"])
            if thing.kind == "agent" and thing.deleted_at is None:
                agents.Agent.parse_thing(thing)
        except UnreadableError as error:
            noun = thing.kind if thing.kind in ("agent", "room") else "thing"
            raise UnreadableError(f"the {noun} {thing.id!r} cannot be read: {error}") from error


def _read_last_uses(conn: Connection) -> None:
    for at in last_use.read_last_seen(conn).values():
        format_iso(at)


def _read_rooms(conn: Connection) -> None:
    query = select(things_table.c.id).where(
        things_table.c.kind == "room", things_table.c.deleted_at.is_(None)
    )
    for room_id in {HOME_ID, *conn.scalars(query)}:
        _read_room(conn, room_id)


def _read_room(conn: Connection, room_id: str) -> None:
    rooms.read_room(conn, room_id)
    members = read_members(conn, room_id)
    try:
        rooms.parse_room(_get_thing(conn, room_id), members)
        for member in members.values():
            if member.role is not None and member.role not in ROOM_ROLES:
                raise UnreadableError(f"the role of {member.agent_id!r} is {member.role!r}")
    except UnreadableError as error:
        raise UnreadableError(f"the room {room_id!r} cannot be read: {error}") from error


def _get_thing(conn: Connection, thing_id: str) -> Thing:
    query = select(things_table).where(things_table.c.id == thing_id)
    return thing_from_row(conn.execute(query).mappings().one())


def _read_tokens(conn: Connection) -> None:
    for row in conn.execute(select(tokens_table)):
        if tokens.token_from_row(row).scope != row.scope:
            raise UnreadableError(f"the scope of the token {row.id!r} is {row.scope!r}")


def _read_invites(conn: Connection) -> None:
    invites.read_invites(conn)
    for row in conn.execute(select(invites_table.c.id, invites_table.c.role)):
        if row.role not in agents.SERVER_ROLES:
            raise UnreadableError(f"the role of the invite {row.id!r} is {row.role!r}")


def _read_audit(conn: Connection) -> None:
    for entry in audit.read_audit(conn, audit.AuditFilter(), PAGE_ROWS):
        format_iso(entry.at)


def _read_logs(conn: Connection) -> None:
    for log_id in conn.scalars(select(rows_table.c.room_id).distinct()):
        for row in rows.read_tail(conn, log_id, PAGE_ROWS):
            format_iso(row.created_at)
