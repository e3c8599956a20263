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
