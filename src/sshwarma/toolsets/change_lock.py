"""The lock of changes of toolsets: one at a time, and those that wait say so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from sshwarma.workspaces.runs import sandbox_user
from sshwarma.world.caller import Caller


class ChangeLock:
    """Lets one import or change of a toolset go on at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def hold(self, caller: Caller) -> AsyncIterator[None]:
        """Wait until no other change goes on, and tell the caller that it waits."""
        if self._lock.locked():
            sandbox_user(caller).tell("It waits: another toolset is being installed or changed.")
        async with self._lock:
            yield
