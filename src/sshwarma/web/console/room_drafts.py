"""Unfinished answers of a room, for all tabs that show it: each is made once.

A tab that cannot take one now is behind: it gets the present text of each answer with the next.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeAlias

import structlog

from sshwarma.common.limits import MAX_CONSOLE_UPDATES_PER_SECOND
from sshwarma.events.draft_changes import DraftChanges, DraftPart
from sshwarma.web._uvicorn import encode_frame
from sshwarma.world.events import RowAppended, StreamEnded, StreamUpdated
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

WriteFrame: TypeAlias = Callable[[bytes], bool]
"""Sends a frame to a tab; False if it cannot take it now."""


class RoomDrafts:
    """The unfinished answers of one room, while tabs show it."""

    def __init__(self, world: World, room_id: str) -> None:
        self._world = world
        self._room_id = room_id
        self._tabs: dict[object, WriteFrame] = {}
        self._behind: set[object] = set()
        self._changes = DraftChanges()
        self._present: dict[str, StreamUpdated] = {}
        self._last_rows: dict[str, int] = {}  # of turns of which a part is in rows already
        self._changed = asyncio.Event()
        self._stop = world.bus.on_room(room_id, self._on_event)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, tab: object, write: WriteFrame) -> None:
        """Send to a tab from now on; first the present text of each answer."""
        self._tabs[tab] = write
        self._behind.add(tab)
        self._changed.set()

    def remove(self, tab: object) -> bool:
        """Send to a tab no longer; return whether it was the last, which ends this."""
        self._tabs.pop(tab, None)
        self._behind.discard(tab)
        if not self._tabs:
            self._stop()
            self._task.cancel()
        return not self._tabs

    def _on_event(self, event: object) -> None:
        match event:
            case StreamUpdated(turn_id=turn_id):
                self._present[turn_id] = event
                self._changes.take(event)
                self._changed.set()
            case StreamEnded(turn_id=turn_id):
                self._forget(turn_id)
                self._last_rows.pop(turn_id, None)
            case RowAppended(row=row) if row.turn_id:
                self._forget(row.turn_id)
                self._last_rows[row.turn_id] = row.seq

    def _forget(self, turn_id: str) -> None:
        self._present.pop(turn_id, None)
        self._changes.forget(turn_id)

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                self._send()
            except Exception:
                log.exception("drafts were not sent", room=self._room_id)
            await asyncio.sleep(1 / MAX_CONSOLE_UPDATES_PER_SECOND)

    def _send(self) -> None:
        news = [self._encode(part) for part in self._changes.read()]
        whole = self._encode_present() if self._behind else []
        for tab, write in self._tabs.items():
            frames = whole if tab in self._behind else news
            if all(map(write, frames)):
                self._behind.discard(tab)
            else:
                self._behind.add(tab)

    def _encode_present(self) -> list[bytes]:
        changes = DraftChanges()
        for event in self._present.values():
            changes.take(event)
        return [self._encode(part, is_whole=True) for part in changes.read()]

    def _encode(self, part: DraftPart, *, is_whole: bool = False) -> bytes:
        waits = ", ".join([*part.tools, part.waits] if part.waits else part.tools)
        text = part.text if part.text is not None else part.more or ""
        author = self._world.agents.get(part.author_id)
        message: dict[str, Any] = {
            "type": "set" if is_whole or part.text is not None else "add",
            "turn": part.turn_id,
            "row": self._last_rows.get(part.turn_id, 0),  # what ends with a later one is another
            "who": self._world.agents.name_of(part.author_id),
            "isModel": author is not None and author.kind == "model",
            "text": text,
            "waits": waits,
        }
        return encode_frame(json.dumps(message, ensure_ascii=False))


class AllDrafts:
    """The unfinished answers of all rooms that tabs show."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rooms: dict[str, RoomDrafts] = {}

    def add(self, room_id: str, tab: object, write: WriteFrame) -> None:
        """Send those of a room to a tab."""
        if room_id not in self._rooms:
            self._rooms[room_id] = RoomDrafts(self._world, room_id)
        self._rooms[room_id].add(tab, write)

    def remove(self, room_id: str, tab: object) -> None:
        """Send to a tab no longer."""
        if self._rooms[room_id].remove(tab):
            del self._rooms[room_id]
