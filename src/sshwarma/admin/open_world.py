"""Opening of the world in a data directory, by the server or a command."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy.exc import DatabaseError

from sshwarma.admin import data_dir_modes
from sshwarma.admin.lost_world import check_no_world_was_lost
from sshwarma.admin.recovery import recover_database
from sshwarma.settings import Settings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.databases import DatabaseUrl, Location
from sshwarma.world.migrate import damage_error
from sshwarma.world.move_mark import (
    MovedWorldError,
    MoveMark,
    check_not_moved,
    read_file_mark,
    write_file_mark,
)
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

NODE_FILE: Final = "node"
"""The file of a data directory that names its server among those of a world on PostgreSQL."""


def check_database_file(settings: Settings) -> None:
    """Finish what an interrupted change has left of the file; it must not be lost.

    Raises:
        SchemaError, LostWorldError: if it cannot be used.
    """
    check_not_moved(settings.database_file)
    recover_database(settings.database_file)
    check_no_world_was_lost(settings.database_file)
    if not settings.database_file.exists():
        log.warning("new world", data_dir=str(settings.data_dir))


def locate_world(settings: Settings) -> Location:
    """Return where the world of some settings is."""
    if not settings.database:
        return settings.database_file
    # The lock of the data directory lets one server have this name at a time.
    mark = _read_node_mark(settings.data_dir / NODE_FILE)
    return DatabaseUrl(settings.database, f"{socket.gethostname()}:{settings.data_dir} {mark}")


def _read_node_mark(path: Path) -> str:
    """Return what tells this data directory from others, made at the first start."""
    if not path.exists():  # who has the lock of the directory is alone
        with open(path, "x", encoding="ascii", opener=_open_private) as file:
            file.write(secrets.token_hex(4))
    return path.read_text(encoding="ascii").strip()


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _note_place(database: Path, place: str) -> None:
    """Note in a data directory without a file that its world is on PostgreSQL.

    A command without that setting names it then, and makes no second world.
    """
    mark = MoveMark("moved", place)
    try:
        if not database.exists() and read_file_mark(database) != mark:
            write_file_mark(database, mark)
    except (OSError, MovedWorldError) as error:
        log.warning("the place of the world was not noted", reason=str(error))


async def open_world(settings: Settings) -> World:
    """Open the world of a data directory, created if missing; no door opens.

    Raises:
        SchemaError: if the database is damaged, or not at the newest schema.
    """
    data_dir_modes.make_data_dir_private(settings.data_dir)
    if settings.database:
        world = await World.open(locate_world(settings), tool_specs())
        _note_place(settings.database_file, world.store.dialect.place)
        return world
    check_not_moved(settings.database_file)
    recover_database(settings.database_file)
    try:
        world = await World.open(settings.database_file, tool_specs())
    except DatabaseError as error:
        raise damage_error(settings.database_file, error) from error
    data_dir_modes.make_database_private(settings.database_file)
    return world
