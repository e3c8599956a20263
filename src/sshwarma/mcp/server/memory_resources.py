"""MCP resources of memories: the keys of one, and their values."""

from __future__ import annotations

from sqlalchemy import Connection

from sshwarma.verbs.mem import Memory, find_memory, read_memory
from sshwarma.verbs.mem import read_text as read_value
from sshwarma.world import memory
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller


async def read_text(caller: Caller, whose: str, key: str) -> str:
    """Return the value of a key; without a key, the keys, one a line.

    Raises:
        NotFound: if the key is missing.
        Forbidden: if the caller may not read in its room.
    """
    place = await _find(caller, whose)
    if key:
        return await read_value(caller, place, key)
    page = await read_memory(caller, place, memory.list_keys)
    return "\n".join(page.keys)


async def read_signature(caller: Caller, whose: str, key: str) -> object:
    """Return a value that differs from the last one if the resource has changed.

    Raises:
        Forbidden: if the caller may not read in its room.
    """
    place = await _find(caller, whose)

    def read(conn: Connection, scope: str | None) -> object:
        if not key:
            return memory.list_keys(conn, scope, described=0).keys
        value = memory.find_value(conn, scope, key)
        return (scope, None) if value is None else (value.id, value.updated_at, value.content)

    return hash(await read_memory(caller, place, read))  # a value may be long


async def _find(caller: Caller, whose: str) -> Memory:
    await caller.require(Right.ENTER)
    return await find_memory(caller, of_project=whose == "project")
