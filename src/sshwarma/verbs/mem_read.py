"""Reading a memory, for the verbs of projects and of rooms."""

from __future__ import annotations

from sqlalchemy import Connection

from sshwarma.common.finish import run_in_thread
from sshwarma.common.limits import MAX_SHOWN_MEMORY_KEYS
from sshwarma.tools.text_search import TextPattern
from sshwarma.verbs.mem import (
    Memory,
    describe_missing,
    find_memory,
    read_memory,
    read_text,
    store_text,
)
from sshwarma.verbs.mem_views import MemoryKeys, MemoryMatches, MemoryValue, make_memory_matches
from sshwarma.world import memory, text_history
from sshwarma.world.caller import Caller
from sshwarma.world.memory import KeyEntry, KeyPage
from sshwarma.world.things import Thing


async def get_value(
    caller: Caller, place: Memory, key: str, *, number_lines: bool = False
) -> MemoryValue:
    """Return the value of a key; to programs also that it is missing.

    Raises:
        NotFound: if a person asks for a key that is not there.
    """
    memory.check_key(key)

    def read(conn: Connection, scope_id: str | None) -> tuple[Thing | None, int, str | None]:
        value = memory.find_value(conn, scope_id, key)
        of_row = place.read_row_text(conn, key) if value is None else None
        return value, text_history.read_present_version(conn, value), of_row

    value, version, of_row = await read_memory(caller, place, read)
    project = place.shown_project
    if of_row is not None:
        return MemoryValue(key, of_row, True, None, number_lines=number_lines)
    if value is None:
        if caller.reader.is_person and not caller.wants_json:
            raise place.missing_error(key)
        sentence = describe_missing(place, key)
        return MemoryValue(key, "", False, project, sentence=sentence)
    author_id = memory.get_author_id(value)
    return MemoryValue(
        key,
        value.content or "",
        True,
        project,
        by=caller.world.agents.name_of(author_id) if author_id else None,
        set_at=value.updated_at,
        version=version,
        number_lines=number_lines,
    )


async def list_keys(
    caller: Caller, place: Memory, prefix: str | None, limit: int | None, offset: int
) -> MemoryKeys:
    """Return the keys of a memory."""
    page = await read_memory(
        caller,
        place,
        lambda conn, scope: memory.list_keys(
            conn, scope, prefix=prefix or "", limit=limit, offset=offset
        ),
    )
    project = place.shown_project
    return MemoryKeys(page.keys, page.total, project, offset, name_authors(caller, page))


def name_authors(
    caller: Caller, page: KeyPage, limit: int = MAX_SHOWN_MEMORY_KEYS
) -> tuple[tuple[KeyEntry, str], ...]:
    """Return the first entries of a page, each with the name of its author."""
    names = caller.world.agents.name_of
    return tuple(
        (entry, names(entry.author_id) if entry.author_id else "") for entry in page.entries[:limit]
    )


async def search_value(caller: Caller, place: Memory, key: str, pattern: str) -> MemoryMatches:
    """Return the lines of a value that match, or that it is missing.

    Raises:
        Invalid: if the pattern is no regular expression that the engine knows.
        NotFound: if a person asks for a key that is not there.
        TimedOut: if the search takes too long.
    """
    compiled = TextPattern(pattern)
    found = await get_value(caller, place, key)
    if not found.found:
        return MemoryMatches(key, pattern, False, sentence=found.sentence)
    matches = await run_in_thread(lambda stop: compiled.search(found.value, stop))
    return make_memory_matches(key, pattern, matches)


async def copy_to_session(caller: Caller, place: Memory, key: str, session_key: str) -> str:
    """Copy a value into session memory; return the value."""
    memory.check_key(session_key, "target_session_key")
    value = await read_text(caller, place, key)
    await store_text(caller, await find_memory(caller, of_project=False), session_key, value)
    return value
