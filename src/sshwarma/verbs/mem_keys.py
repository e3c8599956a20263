"""Keys of memories as arguments of `/mem`, with their completion."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, TypeAlias

from pydantic import Field

from sshwarma.common.limits import MAX_COMPLETIONS, MAX_EXACT_INTEGER
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.verbs.mem import find_memory, read_memory
from sshwarma.world import memory
from sshwarma.world.errors import WorldError


async def complete_project_keys(request: CompletionRequest) -> list[Option]:
    """List the keys of the project's memory that begin with what is typed."""
    return await _complete_keys(request, of_project=True)


async def complete_session_keys(request: CompletionRequest) -> list[Option]:
    """List the keys of the room's memory that begin with what is typed."""
    return await _complete_keys(request, of_project=False)


async def _complete_keys(request: CompletionRequest, *, of_project: bool) -> list[Option]:
    caller = request.caller
    given = request.given
    project = _find_project(given) if of_project else None
    try:
        place = await find_memory(caller, project, of_project=of_project)
    except WorldError:  # of a project that does not exist, or that it may not use
        return []
    page = await read_memory(
        caller,
        place,
        lambda conn, scope: memory.list_keys(
            conn, scope, prefix=request.typed, limit=MAX_COMPLETIONS
        ),
    )
    return [(key, "") for key in page.keys]


def _find_project(given: Sequence[str]) -> str | None:
    """Return the value of `--project` among words; None without one."""
    for word, following in zip_longest(given, given[1:]):
        if word == "--project":
            return following
        if word.startswith("--project="):
            return word.partition("=")[2]
    return None


ProjectKey: TypeAlias = Annotated[str, Arg(complete=complete_project_keys, may_have_spaces=True)]
SessionKey: TypeAlias = Annotated[str, Arg(complete=complete_session_keys, may_have_spaces=True)]
NewSessionKey: TypeAlias = Annotated[str, Arg(complete=complete_session_keys, label="to")]
"""A key of session memory that is written to."""

FromSessionKey: TypeAlias = Annotated[str, Arg(complete=complete_session_keys, label="from")]
ProjectName: TypeAlias = Annotated[str, Arg()]
KeyCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=MAX_EXACT_INTEGER)]
