"""Opening of the world in a data directory, by the server or a command."""

from __future__ import annotations

from sqlalchemy.exc import DatabaseError

from sshwarma.admin import data_dir_modes
from sshwarma.admin.recovery import recover_database
from sshwarma.settings import Settings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.migrate import damage_error
from sshwarma.world.world import World


async def open_world(settings: Settings) -> World:
    """Open the world of a data directory, created if missing; no door opens.

    Raises:
        SchemaError: if the database is damaged, or not at the newest schema.
    """
    data_dir_modes.make_data_dir_private(settings.data_dir)
    recover_database(settings.database)
    try:
        world = await World.open(settings.database, tool_specs())
    except DatabaseError as error:
        raise damage_error(settings.database, error) from error
    data_dir_modes.make_database_private(settings.database)
    return world
