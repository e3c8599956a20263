"""The verbs of `/mem project`: texts that all rooms of a project share."""

from __future__ import annotations

from sshwarma.services import services_of
from sshwarma.verbs.arguments import Flag, Pattern, TextAfterEquals
from sshwarma.verbs.mem import (
    NAMESPACE,
    delete_key,
    describe_stored,
    find_memory,
    mem,
    read_memory,
    read_text,
    require_one,
    store_text,
)
from sshwarma.verbs.mem_keys import FromSessionKey, KeyCount, NewSessionKey, ProjectKey, ProjectName
from sshwarma.verbs.mem_read import (
    copy_to_session,
    get_value,
    list_keys,
    name_authors,
    search_value,
)
from sshwarma.verbs.mem_views import MemoryKeys, MemoryMatches, MemoryOverview, MemoryValue
from sshwarma.verbs.rights import MEMORY_RIGHT, NEW_PROJECT_RIGHT, ArgumentRight
from sshwarma.verbs.views import Confirmation, format_count
from sshwarma.world import memory
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller

OVERVIEW_KEYS = 20
"""Keys of each memory that an overview shows."""


@mem.verb("show", needs=Right.ENTER, tool=False, examples=("/mem",))
async def show_memories(caller: Caller) -> MemoryOverview:
    """Show the keys of this room's project and of the room itself."""
    of_project = await find_memory(caller)
    of_session = await find_memory(caller, of_project=False)
    pages = [
        await read_memory(
            caller,
            place,
            lambda conn, scope: memory.list_keys(conn, scope, limit=OVERVIEW_KEYS),
        )
        for place in (of_project, of_session)
    ]
    paths = services_of(caller).projects
    directory = await paths.find_directory(caller.room_id)
    return MemoryOverview(
        of_project.shown_project or "",
        paths.is_pinned,
        directory != paths.start_directory,
        pages[0].keys,
        pages[0].total,
        pages[1].keys,
        pages[1].total,
        name_authors(caller, pages[0]),
        name_authors(caller, pages[1]),
    )


@mem.verb(
    "project get",
    needs=Right.ENTER,
    also_needs=(ArgumentRight("target_session_key", Right.TALK, "to copy it"),),
    change_scope=TokenScope.READ,  # a copy needs the scope of that right, too
    tool="project_memory_get_variable",
    mcp_tool="project_memory_get_variable",
    leave_out="SHORT 500",
    namespace=NAMESPACE,
    default=True,
    private_with=("project",),
    examples=(
        "/mem project get plan",
        "/mem project get plan --to draft",
        "/mem project get plan --number-lines --project ../site",
    ),
)
async def get_project_value(
    caller: Caller,
    key: ProjectKey,
    *,
    project: ProjectName | None = None,
    target_session_key: NewSessionKey | None = None,
    number_lines: Flag = False,
) -> MemoryValue:
    """Get a value of project memory.

    For people:
        In a pipe it is the value byte for byte: `ssh HOST mem project get KEY > FILE`.

    Args:
        key: the key.
        project: path of another project than the room's.
        target_session_key: copy it into session memory under this key, without showing it.
        number_lines: number the lines.
    """
    place = await find_memory(caller, project)
    if target_session_key is None:
        return await get_value(caller, place, key, number_lines=number_lines)
    found = await get_value(caller, place, key)
    if not found.found:
        return found
    await MEMORY_RIGHT.check(caller, {})  # as for all that writes it
    value = await copy_to_session(caller, place, key, target_session_key)
    sentence = (
        f'Copied "{key}" from project memory into session memory as "{target_session_key}"'
        f" ({format_count(len(value), 'character')})."
    )
    return MemoryValue(key, "", True, found.project, sentence=sentence)


@mem.verb(
    "project set",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT, NEW_PROJECT_RIGHT),
    tool="project_memory_set_variable",
    mcp_tool="project_memory_set_variable",
    leave_out="PARAMS_ONLY",
    takes_exact_text=True,
    text_source="from_session_key",
    namespace=NAMESPACE,
    default=True,
    private_with=("project",),
    examples=("/mem project set plan = Ship on Friday.", "/mem project set plan --from draft"),
)
async def set_project_value(
    caller: Caller,
    key: ProjectKey,
    value: TextAfterEquals | None = None,
    *,
    project: ProjectName | None = None,
    from_session_key: FromSessionKey | None = None,
) -> Confirmation:
    """Set a value of project memory.

    Give value or from_session_key, not both.

    For people:
        From a shell: `ssh HOST mem project set KEY < FILE`.

    Args:
        key: at most {MAX_MEMORY_KEY_CHARACTERS} characters.
        value: the text.
        project: path of another project than the room's.
        from_session_key: key of session memory to copy the value from.
    """
    require_one(caller, key, value, from_session_key)
    memory.check_key(key)
    place = await find_memory(caller, project, writes=True)
    if place.is_new_project:
        await NEW_PROJECT_RIGHT.require(caller)
    if from_session_key is not None:
        memory.check_key(from_session_key, "from_session_key")
        session = await find_memory(caller, of_project=False)
        value = await read_text(caller, session, from_session_key)
    text = value or ""
    outcome = await store_text(caller, place, key, text)
    return Confirmation(describe_stored(outcome, key, text, place.label))


@mem.verb(
    "project list",
    needs=Right.ENTER,
    tool="project_memory_list_variables",
    mcp_tool="project_memory_list_variables",
    leave_out="KEEP",
    namespace=NAMESPACE,
    default=True,
    private_with=("project",),
    examples=("/mem project list", "/mem project list notes/ --limit 20 --offset 40"),
)
async def list_project_keys(
    caller: Caller,
    prefix: ProjectKey | None = None,
    *,
    project: ProjectName | None = None,
    limit: KeyCount | None = None,
    offset: KeyCount = 0,
) -> MemoryKeys:
    """List the keys of project memory.

    Args:
        prefix: how the keys begin.
        project: path of another project than the room's.
        limit: maximum number of keys.
        offset: keys to leave out first.
    """
    place = await find_memory(caller, project)
    return await list_keys(caller, place, prefix, limit, offset)


@mem.verb(
    "project delete",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="project_memory_delete_variable",
    mcp_tool="project_memory_delete_variable",
    leave_out="PARAMS_ONLY",
    namespace=NAMESPACE,
    default=True,
    private_with=("project",),
    examples=("/mem project delete plan",),
)
async def delete_project_key(
    caller: Caller, key: ProjectKey, *, project: ProjectName | None = None
) -> Confirmation:
    """Delete a key of project memory.

    Args:
        key: the key.
        project: path of another project than the room's.
    """
    place = await find_memory(caller, project, writes=True)
    await delete_key(caller, place, key)
    return Confirmation(f'Deleted "{key}" from {place.label}.')


@mem.verb(
    "project search",
    needs=Right.ENTER,
    tool="project_memory_search_by_regex",
    mcp_tool="project_memory_search_by_regex",
    leave_out="SHORT 500",
    namespace=NAMESPACE,
    default=True,
    private_with=("project",),
    examples=("/mem project search plan Friday|Monday",),
)
async def search_project_value(
    caller: Caller, key: ProjectKey, pattern: Pattern, *, project: ProjectName | None = None
) -> MemoryMatches:
    """Search a value of project memory by a regular expression.

    Returns the lines that match, with numbers.

    For people:
        What matches is bold. It takes at most {MEMORY_SEARCH_SECONDS}. There are no references back
        and no lookaround.

    Args:
        key: the key.
        pattern: looked for in each line.
        project: path of another project than the room's.
    """
    place = await find_memory(caller, project)
    return await search_value(caller, place, key, pattern)
