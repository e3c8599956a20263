"""The file that a renderer names, for terminals, which show its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.common.units import MIB
from sshwarma.services import services_of
from sshwarma.world import calls
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError
from sshwarma.world.row import Row

_SHOWING: Final = ("code", "document")
"""Renderers whose content is a text."""

_MAX_SHOWN_BYTES: Final = MIB


def read_content(plan: Mapping[str, Any] | None) -> str | None:
    """Return the text that a plan shows; None if it shows something else."""
    if plan is None or plan.get("renderer") not in _SHOWING:
        return None
    config = plan.get("config")
    content = config.get("content") if isinstance(config, Mapping) else None
    return content if isinstance(content, str) else None


async def load_content(
    caller: Caller, plan: dict[str, Any] | None, row: Row | None = None
) -> dict[str, Any] | None:
    """Return a plan with the text of the file that it names, for a terminal.

    Args:
        caller: who reads it; programs get the plan as it is.
        plan: the plan.
        row: of the result, whose version of the files counts; None for the present one.
    """
    if plan is None or not caller.reader.is_person or caller.wants_json:
        return plan
    config = plan.get("config")
    if plan.get("renderer") not in _SHOWING or not isinstance(config, dict):
        return plan
    path = config.get("file")
    if not isinstance(path, str) or config.get("content") is not None:
        return plan
    workspaces = services_of(caller).workspaces

    def read(conn: Connection) -> Any:
        version = None if row is None else calls.read_version_after(conn, row)
        if version is not None:
            return workspaces.get_tree(conn, version).get(path)
        return workspaces.get_active(conn, caller.room_id)[1].get(path)

    entry = await caller.world.store.read(read)
    if entry is None or not entry.is_file or entry.size > _MAX_SHOWN_BYTES:
        return plan
    try:
        text = (await workspaces.read(entry)).decode()
    except (WorldError, UnicodeDecodeError):  # no text, or a content that is damaged
        return plan
    return {**plan, "config": {**config, "content": text}}
