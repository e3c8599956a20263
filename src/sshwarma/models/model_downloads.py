"""Downloads of the packaged model for waiting models, also over a restart."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.models.backend import BackendError
from sshwarma.models.packaged_model import PackagedModelDownload, work_folder
from sshwarma.world import rows
from sshwarma.world.errors import WorldError
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

WAITING_FILE: Final = "waiting.json"
"""The models that wait for a download, with the rooms where they were added."""


class ModelDownloads:
    """Downloads the packaged model in the background; says in the room how it ended."""

    def __init__(self, world: World, folder: Path, install: Callable[[str], bool]) -> None:
        """Create the downloads of a server.

        Args:
            world: The world of the models.
            folder: Where the file is kept, in the server's data directory.
            install: Loads a model again, by its agent's id; returns whether it is still listed.
        """
        self._world = world
        self._folder = folder
        self._install = install
        self._packaged_model = PackagedModelDownload(folder)
        self._tasks = BackgroundTasks()
        self._waiting: dict[str, str] = {}  # ids of agents and of rooms
        self._saving = asyncio.Lock()

    def begin(self, agent_id: str, room_id: str) -> None:
        """Download the file for a model that is listed; the end is a notice in the room."""
        self._waiting[agent_id] = room_id
        self._tasks.spawn(self._download(agent_id, room_id), name="download of the packaged model")

    async def resume(self) -> None:
        """Begin again what the end of the server interrupted, and remove what it left."""
        await asyncio.to_thread(shutil.rmtree, work_folder(self._folder), ignore_errors=True)
        for agent_id, room_id in (await asyncio.to_thread(self._read_waiting)).items():
            agent = self._world.agents.get(agent_id)
            if agent is None or not agent.model:
                continue
            await self._announce(
                agent_id, room_id, "downloads its model again: the server stopped meanwhile"
            )
            self.begin(agent_id, room_id)

    async def close(self) -> None:
        """Abandon downloads; the next start restarts them."""
        await self._tasks.cancel()

    async def _download(self, agent_id: str, room_id: str) -> None:
        await self._save_waiting()
        problem = ""
        try:
            await self._packaged_model.run()
        except BackendError as error:
            problem = str(error)
        self._waiting.pop(agent_id, None)
        await self._save_waiting()
        if not self._install(agent_id):
            return
        text = f"cannot answer: {problem}" if problem else "answers now: its model was downloaded"
        await self._announce(agent_id, room_id, text)

    async def _announce(self, agent_id: str, room_id: str, text: str) -> None:
        try:
            await self._world.change(
                lambda tx: rows.append_row(tx, room_id, "notice", text, author_id=agent_id)
            )
        except WorldError as error:  # the room is gone
            log.warning("a download was not announced", notice=text, reason=str(error))

    def _read_waiting(self) -> dict[str, str]:
        path = self._folder / WAITING_FILE
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise TypeError("it is not a JSON object")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            log.warning("a file of downloads is damaged", path=str(path), reason=str(error))
            return {}
        return {str(agent): str(room) for agent, room in found.items()}

    async def _save_waiting(self) -> None:
        """Write which downloads have not ended.

        Writes run one after another, as the last change has it.
        """
        async with self._saving:
            await asyncio.to_thread(self._write_waiting, dict(self._waiting))

    def _write_waiting(self, waiting: dict[str, str]) -> None:
        path = self._folder / WAITING_FILE
        try:
            if not waiting:
                path.unlink(missing_ok=True)
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = path.with_name(f"{WAITING_FILE}.part")
            part.write_text(json.dumps(waiting), encoding="utf-8")
            part.replace(path)
        except OSError as error:
            log.warning("a file of downloads is not written", path=str(path), reason=str(error))
