"""Who may read or change the files of a room over git, while a session lasts."""

from __future__ import annotations

from typing import Protocol

from sshwarma.world.caller import Caller


class GitAccess(Protocol):
    """What a clone, fetch or push asks its door."""

    async def check(self, caller: Caller) -> Caller:
        """Return who may read the files now, and for a push change them.

        Raises:
            WorldError: if they may not.
        """

    def begin_storing(self) -> None:
        """Take note that a push is being stored, and cannot be stopped any more."""
