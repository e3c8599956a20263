"""The read-only texts of the sftp door: a room's log, its journal and its things.

A text is made when it is opened. It stays as it was made for SFTP_TEXT_SECONDS, because clients ask
for the size of a file before they read it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from cachetools import TTLCache
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_SHOWN_BAG_THINGS, SFTP_TEXT_SECONDS
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import MIB
from sshwarma.ssh.door.context import SshContext, encode_plain_lines
from sshwarma.ssh.door.sftp_paths import THING_SUFFIX, Place, name_file_of_key
from sshwarma.verbs.examine import read_thing_details
from sshwarma.verbs.export import export_journal, export_room
from sshwarma.verbs.views import draw_lines
from sshwarma.world import memory, things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.memory import KeyEntry, KeyPage
from sshwarma.world.rooms import BAG_KINDS

MAX_KEPT_BYTES = 8 * MIB
"""Bytes of the texts that one client's door keeps for their seconds."""


class RoomTexts:
    """The texts that one client reads; each counts as a command that shows."""

    def __init__(self, context: SshContext) -> None:
        self._context = context
        self._made: TTLCache[tuple[str, Place], bytes] = TTLCache(
            MAX_KEPT_BYTES, SFTP_TEXT_SECONDS, timer=time.monotonic, getsizeof=len
        )

    async def read(self, caller: Caller, place: Place) -> bytes:
        """Return a text of the caller's room.

        Raises:
            NotFound: if the room has no such thing.
        """
        key = (caller.room_id, place)
        text = self._made.get(key)
        if text is None:
            await self._context.line_rate.admit(caller.agent.id, is_read=True)
            text = await self._make(caller, place)
            if len(text) <= MAX_KEPT_BYTES:
                self._made[key] = text
        return text

    async def list_things(self, caller: Caller) -> list[str]:
        """Return the names of the texts about the things in the caller's room."""
        found = await caller.world.store.read(
            lambda conn: things.read_children(
                conn, caller.room_id, *BAG_KINDS, limit=MAX_SHOWN_BAG_THINGS
            )
        )
        return list(dict.fromkeys(f"{thing.name}{THING_SUFFIX}" for thing in found))

    async def list_values(
        self, caller: Caller, key: str | None = None
    ) -> list[tuple[str, KeyEntry]]:
        """Return the keys of the room's session memory, or one, with the names of files."""

        def read(conn: Connection) -> KeyPage:
            container = memory.find_session_container(conn, caller.room_id)
            scope_id = None if container is None else container.id
            if key is None:
                return memory.list_keys(conn, scope_id, described=None)
            return memory.list_keys(conn, scope_id, prefix=key, limit=1)  # itself comes first

        page = await caller.world.store.read(read)
        found = (entry for entry in page.entries if key in (None, entry.key))
        return [(name_file_of_key(entry.key), entry) for entry in found]

    async def _make(self, caller: Caller, place: Place) -> bytes:
        result: object
        if place.kind == "value":
            return await _read_value(caller, place.name)
        if place.kind == "thing":
            thing = await caller.world.store.read(
                lambda conn: things.find_child(conn, caller.room_id, place.name, *BAG_KINDS)
            )
            if thing is None:
                raise NotFound(f"Nothing here is called {place.name}.")
            result = await read_thing_details(caller, thing)
        elif place.name == "journal.md":
            result = await export_journal(caller)
        else:
            result = await export_room(replace(caller, verb="export room"))
        return await asyncio.to_thread(
            lambda: encode_plain_lines(draw_lines(result), utf8=True, newline="\n")
        )


async def _read_value(caller: Caller, key: str) -> bytes:
    def read(conn: Connection) -> str | None:
        container = memory.find_session_container(conn, caller.room_id)
        value = memory.find_value(conn, None if container is None else container.id, key)
        return None if value is None else value.content or ""

    text = await caller.world.store.read(read)
    if text is None:
        raise NotFound(f"Session memory has no key {shorten_name(key)!r}.")
    return text.encode()
