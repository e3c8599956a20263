"""Tool listings of servers, stored as things of the world.

A tool keeps its id whenever its server lists it, so its equipment and settings outlive connections,
removals and restarts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from sshwarma.mcp.client.link import ServerInfo
from sshwarma.mcp.client.sanitize import SanitizedTool, ToolListing
from sshwarma.mcp.client.server_description import choose_keywords, describe_server
from sshwarma.mcp.client.server_records import (
    DESCRIPTION_PREFIX,
    SERVERS_PARENT_ID,
    SUMMARY_KEY,
    list_all_tools,
    tool_thing_id,
)
from sshwarma.mcp.client.tool_approval import merge_tool
from sshwarma.world import things
from sshwarma.world.events import WorldChanged
from sshwarma.world.namespaces import INSTRUCTIONS_KEY, SERVER_KEYWORDS_KEY
from sshwarma.world.overrides import CONFIRM_KEY
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.stored_json import dump_metadata
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import make_stored_names


@dataclass(frozen=True, slots=True)
class ListingChanges:
    """Changes of a tool listing, by tool names."""

    added: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()  # tools that newly wait for approval
    removed: tuple[str, ...] = ()


def publish_listing(
    tx: Change, server_id: str, greeting: ServerInfo, listing: ToolListing, *, trust: bool
) -> ListingChanges:
    """Store the tool listing of a connected server in one change of the world.

    With `trust`, and for the first listing, new and changed tools need no approval.

    Raises:
        NotFound: if the server has been removed.
    """
    server = things.get_live_thing(tx.conn, server_id)
    approve = trust or not server.metadata.get("listed")
    old_tools = {thing.id: thing for thing in list_all_tools(tx.conn, server.id)}
    tools, refusals = _choose_tools(tx.conn, server, listing)
    changes = _compare_tools(tx, server, tools, old_tools, approve=approve)
    gone_tools = [t for t in old_tools.values() if t.id not in tools and t.deleted_at is None]
    _store_tools(tx, changes.created, changes.changed)
    _mark_tools_gone(tx, gone_tools)
    updated = _update_server(tx, server, greeting, refusals, approve=approve)
    if updated or changes.created or changes.changed or gone_tools:
        tx.publish_on_commit(WorldChanged(SERVERS_PARENT_ID))
    return ListingChanges(
        tuple(changes.added), tuple(changes.pending), tuple(tool.name for tool in gone_tools)
    )


def _choose_tools(
    conn: Connection, server: Thing, listing: ToolListing
) -> tuple[dict[str, SanitizedTool], list[tuple[str, str]]]:
    """Return accepted tools by thing id, and refused ones by name with the reason."""
    refusals = list(listing.refused)
    tools: dict[str, SanitizedTool] = {}
    used_names = _taken_names(conn, server, listing)
    for tool in listing.tools:
        if tool.name in used_names:
            refusals.append((tool.name, "this name is already in use here"))
        else:
            tools[tool_thing_id(server, tool.name)] = tool
    return tools, refusals


@dataclass(frozen=True, slots=True)
class _ToolChanges:
    """Columns of new and of changed tools of a listing, and the names to report."""

    created: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)


def _compare_tools(
    tx: Change,
    server: Thing,
    tools: Mapping[str, SanitizedTool],
    before: Mapping[str, Thing],
    *,
    approve: bool,
) -> _ToolChanges:
    """Compare listed tools with the stored ones."""
    changes = _ToolChanges()
    for thing_id, tool in tools.items():
        thing = before.get(thing_id)
        description, metadata = merge_tool(thing, tool, approve=approve)
        metadata.pop(CONFIRM_KEY, None)  # the server may have required it before
        if server.metadata.get("requires_confirmation"):
            metadata[CONFIRM_KEY] = True  # decisions about the tool are stored apart
        is_pending = bool(metadata.get("pending"))
        if is_pending and not (thing and thing.metadata.get("pending") == metadata["pending"]):
            changes.pending.append(tool.name)
        if thing is None or thing.deleted_at is not None:
            changes.added.append(tool.name)
        columns = {
            "description": description or None,
            "metadata": dump_metadata(metadata),
            "qualified_name": f"{server.name}:{tool.name}",
            "updated_at": tx.now,
            **make_stored_names("tool", f"{server.name}:{tool.name}"),
        }
        if thing is None:
            identity = {
                "id": thing_id,
                "parent_id": server.id,
                "kind": "tool",
                "name": tool.name,
                "available": 1,
                "created_at": tx.now,
            }
            changes.created.append(columns | identity)
        elif _differs(thing, description, metadata):
            changes.changed.append(
                {f"b_{name}": value for name, value in columns.items()} | {"b_id": thing.id}
            )
    return changes


def _update_server(
    tx: Change,
    server: Thing,
    greeting: ServerInfo,
    refused: Sequence[tuple[str, str]],
    *,
    approve: bool,
) -> bool:
    """Store what a server says about itself; return whether something changed.

    Instructions that differ from the first ones are used only if texts need no approval.
    """
    is_known = INSTRUCTIONS_KEY in server.metadata
    instructions = greeting.instructions
    if is_known and not approve:
        instructions = server.metadata[INSTRUCTIONS_KEY]
    tools = [
        (tool.name, tool.description)
        for tool in things.read_children(tx.conn, server.id, "tool")
        if "fingerprint" in tool.metadata
    ]
    summary = describe_server(greeting.server or server.name, instructions, tools)
    keywords = choose_keywords(server.name, instructions, tools)
    values = {
        INSTRUCTIONS_KEY: instructions,
        SERVER_KEYWORDS_KEY: list(keywords),
        SUMMARY_KEY: summary,
        "listed": True,
        "version": greeting.version,
        "server": greeting.server,
        "era": greeting.era if greeting.era == "legacy" else None,
        "refused": [list(entry) for entry in refused] or None,
    }
    metadata = {
        key: value for key, value in (server.metadata | values).items() if value is not None
    }
    # A description by people is better than ours.
    is_ours = not server.description or server.description == server.metadata.get(SUMMARY_KEY)
    is_ours = is_ours or server.description.startswith(DESCRIPTION_PREFIX)
    description = summary if is_ours else server.description
    if metadata == server.metadata and server.available and description == server.description:
        return False
    tx.conn.execute(
        update(things_table)
        .where(things_table.c.id == server.id)
        .values(
            available=1,
            metadata=dump_metadata(metadata),
            description=description,
            updated_at=tx.now,
        )
    )
    return True


def _differs(stored: Thing, description: str, metadata: dict[str, Any]) -> bool:
    return (
        not stored.available
        or stored.deleted_at is not None
        or stored.description != description
        or stored.metadata != metadata
    )


def _store_tools(tx: Change, created: list[dict[str, Any]], changed: list[dict[str, Any]]) -> None:
    if created:
        tx.conn.execute(insert(things_table), created)
    if changed:
        tx.conn.execute(
            update(things_table)
            .where(things_table.c.id == bindparam("b_id"))
            .values(
                description=bindparam("b_description"),
                metadata=bindparam("b_metadata"),
                qualified_name=bindparam("b_qualified_name"),
                name_for_models=bindparam("b_name_for_models"),
                name_for_mcp=bindparam("b_name_for_mcp"),
                updated_at=bindparam("b_updated_at"),
                available=1,
                deleted_at=None,
            ),
            changed,
        )


def _mark_tools_gone(tx: Change, tools: list[Thing]) -> None:
    if tools:
        tx.conn.execute(
            update(things_table)
            .where(things_table.c.id == bindparam("b_id"))
            .values(available=0, deleted_at=tx.now, updated_at=tx.now),
            [{"b_id": thing.id} for thing in tools],
        )


def _taken_names(conn: Connection, server: Thing, listing: ToolListing) -> set[str]:
    """Return the listed names whose qualified name another thing has."""
    prefix = f"{server.name}:"
    rows = conn.execute(
        select(things_table.c.id, things_table.c.qualified_name).where(
            things_table.c.qualified_name >= prefix,
            things_table.c.qualified_name < prefix + "\U0010ffff",
            things_table.c.deleted_at.is_(None),
        )
    )
    ids_by_name = {row.qualified_name.removeprefix(prefix): row.id for row in rows}
    return {
        tool.name
        for tool in listing.tools
        if tool.name in ids_by_name and ids_by_name[tool.name] != tool_thing_id(server, tool.name)
    }
