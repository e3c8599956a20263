"""The verbs of `/mem session` on whole values: texts of one room, by key."""

from __future__ import annotations

from sshwarma.verbs.arguments import Flag, Pattern, TextAfterEquals
from sshwarma.verbs.mem import (
    NAMESPACE,
    change_memory,
    check_size,
    delete_key,
    delete_value,
    describe_stored,
    edit_text,
    find_memory,
    mem,
    need_text,
    read_text,
    store_text,
    write_value,
)
from sshwarma.verbs.mem_keys import KeyCount, SessionKey
from sshwarma.verbs.mem_read import get_value, list_keys, search_value
from sshwarma.verbs.mem_views import MemoryKeys, MemoryMatches, MemoryValue
from sshwarma.verbs.rights import MEMORY_RIGHT
from sshwarma.verbs.views import Confirmation, format_count
from sshwarma.world import memory
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.store import Change


@mem.verb(
    "session get",
    needs=Right.ENTER,
    tool="session_memory_get_variable",
    mcp_tool="session_memory_get_variable",
    leave_out="SHORT 500",
    namespace=NAMESPACE,
    examples=("/mem session get draft", "/mem session get draft --number-lines"),
)
async def get_session_value(
    caller: Caller, key: SessionKey, *, number_lines: Flag = False
) -> MemoryValue:
    """Get a value from session memory, the memory of this room.

    For people:
        In a pipe it is the value byte for byte: `ssh HOST mem session get KEY > FILE`.

    Args:
        key: the key.
        number_lines: show each line with its number.
    """
    place = await find_memory(caller, of_project=False)
    return await get_value(caller, place, key, number_lines=number_lines)


@mem.verb(
    "session set",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_set_variable",
    mcp_tool="session_memory_set_variable",
    leave_out="PARAMS_ONLY",
    takes_exact_text=True,
    namespace=NAMESPACE,
    examples=("/mem session set draft = Dear all,",),
)
async def set_session_value(
    caller: Caller, key: SessionKey, value: TextAfterEquals
) -> Confirmation:
    """Set a value in session memory, replacing the one before.

    For people:
        From a shell: `ssh HOST mem session set KEY < FILE`.

    Args:
        key: the key: at most {MAX_MEMORY_KEY_CHARACTERS} characters; upper and lower case differ.
        value: the text, stored as it is.
    """
    place = await find_memory(caller, of_project=False)
    outcome = await store_text(caller, place, key, value)
    return Confirmation(describe_stored(outcome, key, value, place.label))


@mem.verb(
    "session list",
    needs=Right.ENTER,
    tool="session_memory_list_variables",
    mcp_tool="session_memory_list_variables",
    leave_out="KEEP",
    namespace=NAMESPACE,
    examples=("/mem session list", "/mem session list notes/ --limit 20"),
)
async def list_session_keys(
    caller: Caller,
    prefix: SessionKey | None = None,
    *,
    limit: KeyCount | None = None,
    offset: KeyCount = 0,
) -> MemoryKeys:
    """List the keys of session memory, sorted.

    Args:
        prefix: list only the keys that begin with this text.
        limit: maximum number of keys.
        offset: number of keys to leave out at the beginning.
    """
    place = await find_memory(caller, of_project=False)
    return await list_keys(caller, place, prefix, limit, offset)


@mem.verb(
    "session delete",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_delete_variable",
    mcp_tool="session_memory_delete_variable",
    leave_out="PARAMS_ONLY",
    namespace=NAMESPACE,
    examples=("/mem session delete draft",),
)
async def delete_session_key(caller: Caller, key: SessionKey) -> Confirmation:
    """Delete a key from session memory.

    Args:
        key: the key.
    """
    place = await find_memory(caller, of_project=False)
    await delete_key(caller, place, key)
    return Confirmation(f'Deleted "{key}" from {place.label}.')


@mem.verb(
    "session append",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_append_to_variable",
    mcp_tool="session_memory_append_to_variable",
    leave_out="PARAMS_ONLY",
    takes_exact_text=True,
    namespace=NAMESPACE,
    examples=("/mem session append draft = One more line.",),
)
async def append_to_session_value(
    caller: Caller, key: SessionKey, text: TextAfterEquals
) -> Confirmation:
    """Add text at the end of a value in session memory.

    It is added as it is, without a new line before it. A key that is missing is created.

    Args:
        key: the key.
        text: the text to add.
    """
    place = await find_memory(caller, of_project=False)
    _, made = await edit_text(caller, place, key, lambda value: value + text, missing="")
    size = format_count(len(made), "character")
    return Confirmation(f'Added to "{key}" in session memory: it has {size} now.')


@mem.verb(
    "session concat",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_concat",
    mcp_tool="session_memory_concat",
    leave_out="PARAMS_ONLY",
    namespace=NAMESPACE,
    examples=("/mem session concat head body page",),
)
async def concat_session_values(
    caller: Caller, key_a: SessionKey, key_b: SessionKey, dest_key: SessionKey
) -> Confirmation:
    """Join two values in session memory into a third one.

    Args:
        key_a: the key of the first part.
        key_b: the key of the second part.
        dest_key: the key of the result, whose value is replaced; it may be one of the others.
    """
    place = await find_memory(caller, of_project=False)
    memory.check_key(dest_key, "dest_key")
    text = await read_text(caller, place, key_a) + await read_text(caller, place, key_b)
    check_size(caller, text)

    def work(tx: Change, scope_id: str) -> str:
        made = "".join(need_text(tx.conn, place, scope_id, key) for key in (key_a, key_b))
        check_size(caller, made)
        write_value(tx, place, scope_id, dest_key, made, caller)
        return made

    notice = f'set the key "{dest_key}" of session memory'
    made = await change_memory(caller, place, work, notice, size=len(text.encode()))
    size = format_count(len(made), "character")
    return Confirmation(f'Stored "{key_a}" and "{key_b}" joined as "{dest_key}" ({size}).')


@mem.verb(
    "session copy",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_copy_rename",
    mcp_tool="session_memory_copy_rename",
    leave_out="PARAMS_ONLY",
    namespace=NAMESPACE,
    examples=("/mem session copy draft draft-2", "/mem session copy draft final --rename"),
)
async def copy_session_value(
    caller: Caller,
    source_key: SessionKey,
    dest_key: SessionKey,
    *,
    rename: Flag = False,
    force_overwrite: Flag = False,
) -> Confirmation:
    """Copy or rename a key of session memory.

    Args:
        source_key: the key to copy; a row of the log, such as stubs.42, is not renamed.
        dest_key: the new key.
        rename: delete the old key.
        force_overwrite: replace the value of the new key if it has one.
    """
    place = await find_memory(caller, of_project=False)
    memory.check_key(dest_key, "dest_key")
    if source_key == dest_key:
        raise Invalid("source_key and dest_key are the same.")
    text = await read_text(caller, place, source_key)

    def work(tx: Change, scope_id: str) -> None:
        value = need_text(tx.conn, place, scope_id, source_key)
        if memory.find_value(tx.conn, scope_id, dest_key) is not None and not force_overwrite:
            raise Conflict(
                f'The key "{dest_key}" is in session memory already.',
                hint="Set force_overwrite to replace its value.",
            )
        write_value(tx, place, scope_id, dest_key, value, caller)
        if rename:
            delete_value(tx, place, scope_id, source_key, caller)

    done = "renamed" if rename else "copied"
    words = f'"{source_key}" to "{dest_key}"'
    notice = f"{done} {words} in session memory"
    await change_memory(caller, place, work, notice, size=len(text.encode()))
    return Confirmation(f"{done.capitalize()} {words} in session memory.")


@mem.verb(
    "session search",
    needs=Right.ENTER,
    tool="session_memory_search_by_regex",
    mcp_tool="session_memory_search_by_regex",
    leave_out="SHORT 500",
    namespace=NAMESPACE,
    examples=("/mem session search draft TODO|FIXME",),
)
async def search_session_value(caller: Caller, key: SessionKey, pattern: Pattern) -> MemoryMatches:
    """Search a value in session memory by a regular expression.

    Returns the lines that match, with their numbers, and what matches in bold. It takes at most
    {MEMORY_SEARCH_SECONDS}. There are no references back and no lookaround.

    Args:
        key: the key.
        pattern: the regular expression, looked for in each line.
    """
    place = await find_memory(caller, of_project=False)
    return await search_value(caller, place, key, pattern)
