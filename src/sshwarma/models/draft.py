"""Draft of a streaming answer, saved to disk before its row exists."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from sshwarma.world import drafts
from sshwarma.world.errors import WorldError
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

SAVE_INTERVAL_SECONDS: Final = 0.5
"""Maximum seconds by which the saved draft may lag behind the screen."""


class AnswerDraft:
    """Text that one turn has shown since its last row.

    Saved at most every SAVE_INTERVAL_SECONDS, and only the new part.
    """

    def __init__(self, world: World, turn_id: str) -> None:
        self._world = world
        self._turn_id = turn_id
        self._text = ""
        self._saved_text = ""
        self._task: asyncio.Task[None] | None = None

    def update(self, text: str) -> None:
        """Set the text that is shown now."""
        self._text = text.rstrip()
        if self._text != self._saved_text and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._save())

    def end(self) -> None:
        """Stop saving; the next change makes the text a row and deletes the draft."""
        self._text = self._saved_text = ""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _save(self) -> None:
        while True:
            await asyncio.sleep(SAVE_INTERVAL_SECONDS)
            text, saved_text = self._text, self._saved_text
            if text == saved_text:
                break
            more = text.removeprefix(saved_text) if text.startswith(saved_text) else None

            def work(tx: Change, text: str = text, more: str | None = more) -> None:
                if more is None:  # shown text was removed again
                    drafts.delete_draft(tx, self._turn_id)
                drafts.append_draft(tx, self._turn_id, text if more is None else more)

            try:
                await self._world.change(work)
                self._saved_text = text
            except WorldError as error:
                log.warning("a draft could not be saved", error=str(error))
        self._task = None
