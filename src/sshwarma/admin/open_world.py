"""Opening of the world in a data directory, by the server or a command."""

from __future__ import annotations

import socket

import structlog
from sqlalchemy.exc import DatabaseError

from sshwarma.admin import data_dir_modes
from sshwarma.admin.lost_world import check_no_world_was_lost
from sshwarma.admin.recovery import recover_database
from sshwarma.settings import Settings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.databases import DatabaseUrl, Location
from sshwarma.world.migrate import damage_error
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


def check_database_file(settings: Settings) -> None:
    """Finish what an interrupted change has left of the file; it must not be lost.

    Raises:
        SchemaError, LostWorldError: if it cannot be used.
    """
    recover_database(settings.database_file)
    check_no_world_was_lost(settings.database_file)
    if not settings.database_file.exists():
        log.warning("new world", data_dir=str(settings.data_dir))


def locate_world(settings: Settings) -> Location:
    """Return where the world of some settings is."""
    if not settings.database:
        return settings.database_file
    # The lock of the data directory lets one server have this name at a time.
    node = f"{socket.gethostname()}:{settings.data_dir.absolute()}"
    return DatabaseUrl(settings.database, node)


async def open_world(settings: Settings) -> World:
    """Open the world of a data directory, created if missing; no door opens.

    Raises:
        SchemaError: if the database is damaged, or not at the newest schema.
    """
    data_dir_modes.make_data_dir_private(settings.data_dir)
    if settings.database:
        return await World.open(locate_world(settings), tool_specs())
    recover_database(settings.database_file)
    try:
        world = await World.open(settings.database_file, tool_specs())
    except DatabaseError as error:
        raise damage_error(settings.database_file, error) from error
    data_dir_modes.make_database_private(settings.database_file)
    return world
