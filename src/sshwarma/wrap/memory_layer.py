"""Memory in a context: which keys there are, and the note of the project."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.common.environment import describe_environment, find_shell, find_system
from sshwarma.common.limits import MAX_CONTEXT_MEMORY_KEYS, MAX_PROJECT_NOTE_CHARACTERS
from sshwarma.world import memory, projects
from sshwarma.world.caller import Caller
from sshwarma.world.projects import ProjectPaths

NOTE_KEY: Final = "note"
"""The key of a project's memory whose value every model of its rooms reads."""

_GET_TOOL: Final = "memory:project_memory_get_variable"
_EDIT_TOOL: Final = "memory:session_memory_replace_lines"


async def read_memory_facts(
    caller: Caller, paths: ProjectPaths, tool_names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the memories of a room and the environment, for layer scripts.

    `tool_names` are the names of the tools that the model is offered, by label.
    """
    path = await paths.find(caller.room_id)
    directory = await paths.find_directory(caller.room_id)

    def read(conn: Connection) -> dict[str, Any]:
        project = projects.find_project(conn, path.path)
        session = memory.find_session_container(conn, caller.room_id)
        project_id, session_id = (one.id if one else None for one in (project, session))
        of_project = memory.list_keys(conn, project_id, limit=MAX_CONTEXT_MEMORY_KEYS)
        of_session = memory.list_keys(conn, session_id, limit=MAX_CONTEXT_MEMORY_KEYS)
        note = memory.find_value(conn, project_id, NOTE_KEY)
        return {
            "project": path.path,
            "project_keys": [_name_key(key) for key in of_project.keys],
            "project_total": of_project.total,
            "session_keys": [_name_key(key) for key in of_session.keys],
            "session_total": of_session.total,
            "note": ((note.content or "") if note else "")[:MAX_PROJECT_NOTE_CHARACTERS],
            "has_tools": _GET_TOOL in tool_names,
            "can_edit": _EDIT_TOOL in tool_names,
        }

    facts = await caller.world.store.read(read)
    note = describe_environment(find_system(), find_shell(), directory, paths.start_directory)
    return {"memory": facts, "environment": note}


def _name_key(key: str) -> str:
    """Return a key as it stands in a list: in quotes if its end would not be clear."""
    is_clear = key == key.strip() and key and not {*key} & {*',"'}
    return key if is_clear else json.dumps(key, ensure_ascii=False)
