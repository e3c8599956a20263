"""Approval of tools: a new or changed one waits until a person read its text.

A waiting tool keeps its approved text; the current one is stored under `pending` in its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Connection, func, select

from sshwarma.mcp.client.sanitize import SanitizedTool
from sshwarma.mcp.client.server_records import MCP_PROVIDER, list_all_tools, server_thing_id
from sshwarma.world import things
from sshwarma.world.errors import Conflict, NotFound
from sshwarma.world.portable_sql import extract_text
from sshwarma.world.reader import next_call
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

CHANGED_OBSTACLE: Final = "changed since it was approved"
NEW_OBSTACLE: Final = "new, and not approved yet"

LISTED_TOOL_KEYS: Final = (
    "remote", "title", "input_schema", "output_schema", "annotations", "fingerprint", "repairs",
)  # fmt: skip
"""Keys of a sanitized tool in its thing's metadata; `repairs` holds the notes on them."""

OLD_KEYS: Final = ("mended",)
"""Keys of worlds of earlier versions; each listing replaces them."""


def list_pending_tools(conn: Connection, name: str) -> list[Thing]:
    """Return a server's tools that wait for approval; empty for an unknown server."""
    server = things.get_thing(conn, server_thing_id(name))
    tools = list_all_tools(conn, server.id) if server is not None else []
    return [thing for thing in tools if thing.deleted_at is None and thing.metadata.get("pending")]


def count_pending_tools(conn: Connection) -> int:
    """Return the number of tools of all servers that wait for approval."""
    query = select(func.count()).where(
        things_table.c.kind == "tool",
        things_table.c.deleted_at.is_(None),
        extract_text(things_table.c.metadata, "pending").is_not(None),
    )
    return conn.execute(query).scalar_one()


def current_fingerprint(tool: Thing) -> str:
    """Return the fingerprint of a tool's current description, approved or not."""
    return str((tool.metadata.get("pending") or tool.metadata).get("fingerprint", ""))


def approve_tools(
    tx: Change, server: Thing, tool: str | None, read: Mapping[str, str] | None = None
) -> list[str]:
    """Approve the current description of one or all waiting tools; return the names.

    Args:
        tx: The change.
        server: The server's thing.
        tool: Name of one tool, or None for all.
        read: Fingerprints that the caller has read, by tool id; None skips the check.

    Raises:
        NotFound: if no such tool waits for approval.
        Conflict: if a description differs from the one that was read; nothing is approved then.
    """
    pending_tools = list_pending_tools(tx.conn, server.name)
    tools = [thing for thing in pending_tools if tool in (None, thing.name, thing.qualified_name)]
    if not tools:
        subject = (
            f"{tool} of {server.name} is not waiting"
            if tool
            else f"No tool of {server.name} is waiting"
        )
        raise NotFound(
            f"{subject} for approval.", hint=next_call("See {}.", "mcp show", name=server.name)
        )
    unread = [
        t.name for t in tools if read is not None and read.get(t.id) != current_fingerprint(t)
    ]
    if unread:
        raise Conflict(
            f"You have not read the current text of {', '.join(unread[:10])} from {server.name}.",
            hint=next_call("Read {}, then approve.", "mcp show", name=server.name),
        )
    for thing in tools:
        pending = thing.metadata["pending"]
        rest = {k: v for k, v in thing.metadata.items() if k not in ("pending", "obstacle")}
        new_fields = {key: pending[key] for key in LISTED_TOOL_KEYS if pending.get(key) is not None}
        metadata = {k: v for k, v in rest.items() if k not in LISTED_TOOL_KEYS} | new_fields
        things.update_thing(
            tx, thing.id, description=pending["description"] or None, metadata=metadata
        )
    return [thing.name for thing in tools]


def merge_tool(
    known: Thing | None, tool: SanitizedTool, *, approve: bool
) -> tuple[str, dict[str, Any]]:
    """Return a listed tool's description and metadata, new text in use or pending.

    Args:
        known: The stored tool, or None for a new one.
        tool: The tool as the server lists it now.
        approve: Whether the new text needs no approval.
    """
    fields = asdict(tool) | {"repairs": list(tool.repairs)}
    new_fields = {
        key: fields[key] for key in LISTED_TOOL_KEYS if fields[key] not in (None, [], "", {})
    }
    new_fields["input_schema"] = tool.input_schema
    old_metadata = known.metadata if known else {}
    rest = {
        k: v
        for k, v in old_metadata.items()
        if k not in (*LISTED_TOOL_KEYS, *OLD_KEYS, "pending", "obstacle", "runs")
    }
    rest["runs"] = MCP_PROVIDER
    if approve or old_metadata.get("fingerprint") == tool.fingerprint:
        return tool.description, rest | new_fields
    pending = new_fields | {"description": tool.description}
    old_fields = {key: old_metadata[key] for key in LISTED_TOOL_KEYS if key in old_metadata}
    obstacle = CHANGED_OBSTACLE if "fingerprint" in old_metadata else NEW_OBSTACLE
    # Models never see a text that no person has approved, not even a description.
    description = known.description if known and "fingerprint" in old_metadata else ""
    return description, rest | old_fields | {"remote": tool.remote} | {
        "pending": pending,
        "obstacle": obstacle,
    }
