"""Worlds that a command opens itself, because no server is running."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sshwarma.settings import Settings
    from sshwarma.world.world import World


@contextlib.asynccontextmanager
async def open_offline(settings: Settings) -> AsyncIterator[World]:
    """Open a world without a server; the audit names the user of this process.

    Raises:
        DataDirInUseError: if another process uses the data directory.
        ForeignDataDirError: if it belongs to another user.
        SchemaError: if the database is damaged, or not at the newest schema.
    """
    from sshwarma.admin import data_dir_lock
    from sshwarma.admin.data_dir_owner import name_process_user
    from sshwarma.admin.open_world import open_world
    from sshwarma.settings.logs import leaving_out
    from sshwarma.world.audit import operator
    from sshwarma.world.store_errors import FULL_DISK

    with data_dir_lock.lock_when_free(settings.data_dir):
        operator.set(name_process_user(os.getpid(), os.geteuid()))
        world = await open_world(settings)
        # The answer of the command says it, with the disk.
        with leaving_out(reason=FULL_DISK):
            try:
                yield world
            finally:
                await world.close()
