"""The prompt and status line of each room.

They are computed once for all terminals in a room, STATUS_REDRAW_DELAY_SECONDS after a change:
when a crowd arrives together, each terminal redraws a few times, not once per arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from sshwarma.terminal.text import Line, Span, line
from sshwarma.world.errors import NotFound
from sshwarma.world.events import PresenceChanged, WorldChanged
from sshwarma.world.rooms import Room
from sshwarma.world.world import World

STATUS_REDRAW_DELAY_SECONDS: Final = 0.1


class StatusWatcher(Protocol):
    """A terminal that shows a room's prompt and status line."""

    def show_room(self, prompt: Span, status: Line) -> None:
        """Show the room's current prompt and status line."""


class StatusLines:
    """The prompts and status lines of all rooms, and their watchers."""

    def __init__(
        self, world: World, in_background: Callable[[Coroutine[Any, Any, Any]], object]
    ) -> None:
        self._world = world
        self._in_background = in_background
        self._watchers: dict[str, set[StatusWatcher]] = {}
        self._rooms: dict[str, Room] = {}  # those that are watched, as they were shown last
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        world.bus.on_event(PresenceChanged, self._on_room_changed)
        world.bus.on_event(WorldChanged, self._on_room_changed)

    def find_room(self, room_id: str) -> Room | None:
        """Return a room that is watched, as it was at most a moment ago."""
        return self._rooms.get(room_id)

    def watch(self, room: Room, watcher: StatusWatcher) -> None:
        """Show a room's prompt and status to a watcher, now and after each change."""
        self._watchers.setdefault(room.id, set()).add(watcher)
        self._rooms[room.id] = room
        watcher.show_room(*self._draw_status(room))

    def unwatch(self, room_id: str, watcher: StatusWatcher) -> None:
        """Stop showing a room's prompt and status to a watcher, if it watches."""
        watchers = self._watchers.get(room_id, set())
        watchers.discard(watcher)
        if not watchers:
            self._watchers.pop(room_id, None)
            self._rooms.pop(room_id, None)

    def _on_room_changed(self, event: PresenceChanged | WorldChanged) -> None:
        if event.room_id in self._watchers:
            self._changed.add(event.room_id)
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(
                    STATUS_REDRAW_DELAY_SECONDS, self._redraw_changed_rooms
                )

    def _redraw_changed_rooms(self) -> None:
        self._timer = None
        room_ids, self._changed = self._changed, set()
        for room_id in room_ids:
            self._in_background(self._redraw_room(room_id))

    async def _redraw_room(self, room_id: str) -> None:
        try:
            room = await self._world.room(room_id)
        except NotFound:
            return  # the room is being deleted and its people are moved out
        if room_id in self._watchers:
            self._rooms[room_id] = room
        prompt, status = self._draw_status(room)
        for watcher in list(self._watchers.get(room_id, ())):
            watcher.show_room(prompt, status)

    def _draw_status(self, room: Room) -> tuple[Span, Line]:
        count = self._world.presence.count(room.id)
        mood = f" · {room.vibe}" if room.vibe else ""
        status = line(("status", f"{room.name} · {count} here{mood} · /help"))
        return ("prompt", f"{room.name}> "), status
