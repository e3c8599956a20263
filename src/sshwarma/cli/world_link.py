"""The world of a command of many operations: in its server, or opened once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sshwarma.settings import Settings

Operate: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs an operation by its name, with its arguments by name."""


@contextlib.asynccontextmanager
async def link_world(settings: Settings) -> AsyncIterator[Operate]:
    """Yield what runs operations: in the server, or else on the database.

    Raises:
        ForeignDataDirError: if the directory belongs to another user, and this is not root.
        WorldError: as `open_offline`.
    """
    from sshwarma.admin import control_client
    from sshwarma.admin.data_dir_owner import check_data_dir_owner
    from sshwarma.admin.operations import run_operation
    from sshwarma.cli.offline import open_offline
    from sshwarma.world.errors import Unavailable

    if os.geteuid() != 0:
        check_data_dir_owner(settings.data_dir)
    try:
        await control_client.send_request(settings.data_dir, "info", {})
    except (FileNotFoundError, ConnectionRefusedError):
        async with open_offline(settings) as world:

            async def operate(operation: str, **args: Any) -> Any:
                return await run_operation(world, operation, args, settings=settings)

            yield operate
        return

    async def ask(operation: str, **args: Any) -> Any:
        try:
            return await control_client.send_request(settings.data_dir, operation, args)
        except (FileNotFoundError, ConnectionError):
            raise Unavailable(
                "The server ended meanwhile. What was stored until then stays.",
                hint="Run the same command again.",
            ) from None

    yield ask


def find_present_world(settings: Settings) -> Settings | None:
    """Return settings that name the world of their directory, or None.

    Raises:
        NotFound: if the directory of a world on PostgreSQL does not exist.
        MovedWorldError: if the world is on PostgreSQL, and no setting and no server says so.
    """
    from sshwarma.world.errors import NotFound
    from sshwarma.world.move_mark import check_not_moved, read_file_mark

    if settings.database:
        if settings.data_dir.exists():
            return settings
        raise NotFound(
            f"The directory {settings.data_dir} does not exist: a world on PostgreSQL has its host"
            " key and the files of its rooms in one.",
            hint="Give its --data-dir. sshwarma serve and sshwarma init make a new one.",
        )
    if settings.database_file.exists() and read_file_mark(settings.database_file) is None:
        return settings
    if (served := with_served_database(settings)).database:
        return served
    check_not_moved(settings.database_file)
    return None


def with_served_database(settings: Settings) -> Settings:
    """Return settings with the database that a running server has, if any.

    Who types a command may not have the settings of the server.
    """
    from sshwarma.admin.doctor_server import ask_server

    answer = ask_server(settings.data_dir, "database_address") or {}
    address = str(answer.get("database") or "")
    return settings.model_copy(update={"database": address}) if address else settings
