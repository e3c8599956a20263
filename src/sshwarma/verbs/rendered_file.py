"""The file that a renderer names, for terminals, which show its content."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.common.units import MIB
from sshwarma.services import services_of
from sshwarma.tools.result_check import format_value
from sshwarma.toolsets.renderers import FILE_RENDERERS
from sshwarma.verbs.file_views import format_size
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.workspaces.blobs import DamagedBlob
from sshwarma.workspaces.damaged_files import naming_damaged_file
from sshwarma.workspaces.row_versions import find_version_of_row
from sshwarma.workspaces.text_diff import decode_file
from sshwarma.workspaces.tree import Entry
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, WorldError
from sshwarma.world.row import Row

_MAX_SHOWN_BYTES: Final = MIB


def read_content(plan: Mapping[str, Any] | None) -> str | None:
    """Return the text that a plan shows; None if it shows something else.

    A content that is no text, such as a list that the tool returned, is shown as JSON, which is
    indented if it is short.
    """
    if plan is None or plan.get("renderer") not in FILE_RENDERERS:
        return None
    config = plan.get("config")
    content = config.get("content") if isinstance(config, Mapping) else None
    if content is None or isinstance(content, str):
        return content
    return format_value(content, indent=1)


async def load_content(
    caller: Caller, plan: dict[str, Any] | None, row: Row | None = None
) -> dict[str, Any] | None:
    """Return a plan with the text of the file that it names, for a terminal.

    Args:
        caller: who reads it; programs get the plan as it is.
        plan: the plan.
        row: of the result: the files count as they were then; None for those of now.
    """
    if plan is None or not caller.reader.is_person or caller.wants_json:
        return plan
    config = plan.get("config")
    if plan.get("renderer") not in FILE_RENDERERS or not isinstance(config, dict):
        return plan
    path = config.get("file")
    if not isinstance(path, str) or config.get("content") is not None:
        return plan
    workspaces = services_of(caller).workspaces

    def read(conn: Connection) -> tuple[str | None, Entry | None]:
        if row is None:
            active, tree = workspaces.get_active(conn, caller.room_id)
            return active, tree.get(path)
        try:
            version = find_version_of_row(conn, row)
        except NotFound:  # the room had no files then
            return None, None
        return version.id, workspaces.get_tree(conn, version.id).get(path)

    version_id, entry = await caller.world.store.read(read)
    if entry is None or not entry.is_file:
        return plan
    at = None if row is None or version_id is None else version_id[-6:]
    saves = f"{write_ssh_command('file get', path=path, at=at)} > FILE saves it."
    if entry.size > _MAX_SHOWN_BYTES:
        return _with_note(plan, f"A file of {format_size(entry.size)}, too large for here. {saves}")
    try:
        with naming_damaged_file(path, (await caller.room()).name, version_id):
            text = await asyncio.to_thread(decode_file, await workspaces.read(entry))
    except DamagedBlob as error:
        return _with_note(plan, error.message)
    except WorldError:
        return plan
    if text is None:
        return _with_note(plan, f"A binary file, {format_size(entry.size)}. {saves}")
    return {**plan, "config": {**config, "content": text}}


def _with_note(plan: Mapping[str, Any], note: str) -> dict[str, Any]:
    """Return a plan that shows a sentence about its file, in plain text."""
    config = {**plan["config"], "content": note, "language": "text"}
    return {**plan, "renderer": "code", "config": config}
