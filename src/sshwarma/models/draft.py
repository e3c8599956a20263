"""The draft of an answer: what people were shown of it is on disk soon after, before its row is."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from sshwarma.world import drafts
from sshwarma.world.errors import WorldError
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

SECONDS: Final = 0.5
"""How far what is kept may be behind what was shown."""


class Draft:
    """What one turn has shown since its last row. Written at most every SECONDS, each time only
    what is new."""

    def __init__(self, world: World, turn_id: str) -> None:
        self._world = world
        self._turn_id = turn_id
        self._shown = ""
        self._kept = ""
        self._task: asyncio.Task[None] | None = None

    def show(self, text: str) -> None:
        """This much of the answer is shown now."""
        self._shown = text.rstrip()
        if self._shown != self._kept and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep())

    def end(self) -> None:
        """What was shown becomes a row in the next change, which forgets what was kept."""
        self._shown = self._kept = ""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(SECONDS)
            text, kept = self._shown, self._kept
            if text == kept:
                break
            more = text.removeprefix(kept) if text.startswith(kept) else None
            self._kept = text

            def work(tx: Change, text: str = text, more: str | None = more) -> None:
                if more is None:  # something shown was taken back
                    drafts.delete_draft(tx, self._turn_id)
                drafts.append_draft(tx, self._turn_id, text if more is None else more)

            try:
                await self._world.change(work)
            except WorldError as refused:
                log.warning("a draft could not be kept", error=str(refused))
        self._task = None
