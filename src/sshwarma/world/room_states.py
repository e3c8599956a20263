"""Room states that are detected, not set; polled, with an event on each change.

A room may have a directory of the server; its contents decide `project-loaded` and `git-present`.
(`mcp:NAME` is read from the tree, where a server's availability is stored.)
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, select

from sshwarma.world.portable_sql import extract_text
from sshwarma.world.schema import things
from sshwarma.world.world import World

CHECK_INTERVAL_SECONDS: Final = 2.0
"""Seconds between two polls."""

DIRECTORY_KEY: Final = "directory"
"""The key of a room's metadata that holds the path."""

PROJECT_KEY: Final = "project_path"
"""The key of a room's metadata that holds where that path led when it was set.

Links of it may lead elsewhere later: whose project that is, nobody has looked at."""


def detect_states(directories: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return the states that directories decide, by the id of their room."""
    states_by_room: dict[str, frozenset[str]] = {}
    for room_id, path in directories.items():
        states = set()
        if os.path.isdir(path):  # noqa: PTH112 - of a path that is too long, Path raises
            states.add("project-loaded")
            if os.path.exists(f"{path}/.git"):  # noqa: PTH110
                states.add("git-present")
        states_by_room[room_id] = frozenset(states)
    return states_by_room


class RoomStateWatcher:
    """Watches the directories of a world's rooms."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def watch(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.check_once()
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)

    async def check_once(self) -> None:
        """Poll once, and publish the changes."""
        directories = await self._world.memoized("directories", read_directories)
        states = await asyncio.to_thread(detect_states, directories) if directories else {}
        self._world.set_detected_states(states)


def read_directories(conn: Connection, *, with_deleted: bool = False) -> dict[str, str]:
    """Return the directories that rooms show the state of, by room id.

    On request also those of deleted rooms, which may be restored.
    """
    return _read_paths(conn, DIRECTORY_KEY, with_deleted=with_deleted)


def read_project_paths(conn: Connection, *, with_deleted: bool = False) -> dict[str, str]:
    """Return the paths of the projects of rooms that have a directory, by room id.

    On request also those of deleted rooms, which may be restored.
    """
    return _read_paths(conn, PROJECT_KEY, with_deleted=with_deleted)


def _read_paths(conn: Connection, key: str, *, with_deleted: bool) -> dict[str, str]:
    """Return the paths under a key of the metadata of rooms, by room id."""
    path = extract_text(things.c.metadata, key)
    query = select(things.c.id, path.label("path")).where(
        things.c.kind == "room", path.is_not(None)
    )
    if not with_deleted:
        query = query.where(things.c.deleted_at.is_(None))
    return {row.id: row.path for row in conn.execute(query)}
