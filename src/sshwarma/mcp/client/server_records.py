"""Records of servers and their tools as things of the world.

A tool keeps its id whenever its server lists it, so its equipment and settings outlive connections,
removals and restarts. A tool that nobody has approved cannot be used: new and changed tools wait,
with their current description under `pending`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sqlalchemy import Connection, bindparam, insert, select, update

from sshwarma.mcp.client.link import ServerInfo
from sshwarma.mcp.client.sanitize import SanitizedTool, ToolListing
from sshwarma.settings import McpSettings
from sshwarma.world import rooms, things
from sshwarma.world.errors import Conflict, NotFound
from sshwarma.world.events import WorldChanged
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

SERVERS_PARENT_ID: Final = "mcps"
MCP_PROVIDER: Final = "mcp"
"""Provider name in the metadata of a tool."""

OFFERED_ORIGIN: Final = "offered"
"""Origin of a server that a person offers over ssh."""

CHANGED_OBSTACLE: Final = "changed since it was approved"
NEW_OBSTACLE: Final = "new, and not approved yet"

_TOOL_FIELDS: Final = (
    "remote", "title", "input_schema", "output_schema", "annotations", "fingerprint", "mended",
)  # fmt: skip
"""Fields of a sanitized tool that its metadata stores; the description is the thing's."""


@dataclass(frozen=True, slots=True)
class ListingChanges:
    """Changes of a tool listing, by tool names."""

    added: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()  # tools that newly wait for approval
    removed: tuple[str, ...] = ()


def server_thing_id(name: str) -> str:
    """Return the thing id of a server; it depends only on the name and never changes."""
    return f"mcp_{name}"


def offer_thing_id(room_id: str, name: str) -> str:
    """Return the thing id of an offered server.

    It differs in every room, so that an offer cannot get the equipment of a server of the same
    name.
    """
    return f"mcp_offer_{room_id}_{name}"


def tool_thing_id(server: Thing, tool: str) -> str:
    """Return the thing id of a tool; unique, because server ids contain no colon."""
    return f"tool_{server.id.removeprefix('mcp_')}:{tool}"


def read_settings(server: Thing) -> McpSettings:
    """Return the settings with which a server was declared."""
    return McpSettings.model_validate({**server.metadata["entry"], "name": server.name})


def list_servers(conn: Connection) -> list[Thing]:
    """Return all live servers, sorted by name."""
    return [
        thing
        for thing in things.read_children(conn, SERVERS_PARENT_ID, "mcp")
        if "entry" in thing.metadata
    ]


def list_offers(conn: Connection, room_id: str) -> list[Thing]:
    """Return the live servers offered in a room, sorted by name."""
    found = things.read_children(conn, room_id, "mcp")
    return [thing for thing in found if thing.metadata.get("origin") == OFFERED_ORIGIN]


def find_server(conn: Connection, name: str) -> Thing:
    """Return the live server of that name.

    Raises:
        NotFound: if no server has it.
    """
    known = things.get_thing(conn, server_thing_id(name))
    if known is None or known.deleted_at is not None:
        known = things.find_by_qualified_name(conn, name)
    if known is None or known.kind != "mcp":
        raise NotFound(f"MCP server {name[:40]} not found.", hint="List them with /mcp.")
    return known


def declare_server(
    tx: Change, settings: McpSettings, *, created_by: str | None, from_settings: bool
) -> Thing:
    """Create the thing of a server, or restore the removed one of that name.

    The tools of its first listing are approved automatically.

    Raises:
        Conflict: if the name is in use.
    """
    entry = settings.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    metadata: dict[str, Any] = {"entry": entry, "origin": "settings" if from_settings else "added"}
    known = things.get_thing(tx.conn, server_thing_id(settings.name))
    _check_name_free(tx.conn, settings.name, server_thing_id(settings.name))
    if known is None:
        return things.create_thing(
            tx,
            SERVERS_PARENT_ID,
            "mcp",
            settings.name,
            id=server_thing_id(settings.name),
            qualified_name=settings.name,
            description=_describe_server(settings),
            metadata=metadata,
            created_by=created_by,
        )
    live = known.deleted_at is None
    if live and not from_settings:
        raise Conflict(
            f"An MCP server named {settings.name} already exists.",
            hint=f"Remove it first with /mcp remove {settings.name}.",
        )
    if live and {**known.metadata, **metadata} == known.metadata:
        return known
    if not live:
        things.restore_thing(tx, known)
    kept = {key: value for key, value in known.metadata.items() if key in _PRESERVED_METADATA}
    return things.update_thing(
        tx,
        known.id,
        description=_describe_server(settings),
        metadata=kept | metadata,
        available=0,
        enabled=int(known.enabled) if live else 1,
    )


def declare_offer(tx: Change, settings: McpSettings, room_id: str, created_by: str) -> Thing:
    """Create or restore the thing of an offered server in a room.

    A server in a room is loaded there, and so are its tools.

    Raises:
        Conflict: if the name is in use, or somebody offers it here already.
    """
    own_id = offer_thing_id(room_id, settings.name)
    _check_name_free(tx.conn, settings.name, own_id)
    entry = settings.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    metadata: dict[str, Any] = {"entry": entry, "origin": OFFERED_ORIGIN, "load_with_parent": True}
    known = things.get_thing(tx.conn, own_id)
    if known is None:
        return things.create_thing(
            tx,
            room_id,
            "mcp",
            settings.name,
            id=own_id,
            qualified_name=settings.name,
            description="Tools offered by someone in this room",
            metadata=metadata,
            created_by=created_by,
        )
    if known.deleted_at is None:
        raise Conflict(f"{settings.name} is already offered here.")
    things.restore_thing(tx, known)
    return things.update_thing(
        tx, own_id, metadata=metadata, available=0, enabled=1, created_by=created_by
    )


def remove_offers(tx: Change) -> None:
    """Remove all offered servers, which do not survive a restart."""
    query = select(things_table).where(
        things_table.c.kind == "mcp", things_table.c.deleted_at.is_(None)
    )
    for row in tx.conn.execute(query).mappings().all():
        server = things.thing_from_row(row)
        if server.metadata.get("origin") == OFFERED_ORIGIN:
            remove_server(tx, server)


def _check_name_free(conn: Connection, name: str, own_id: str) -> None:
    """Raise unless only the thing of that id has the name.

    Raises:
        Conflict: if a thing, room or agent has the name.
    """
    holder = things.find_by_qualified_name(conn, name)
    if holder is not None and holder.id != own_id:
        raise Conflict(f"{name} is already the name of a {holder.kind}.")
    if rooms.find_room_id(conn, name) is not None:
        raise Conflict(f"{name} is already the name of a room and of its tools.")
    if things.find_child(conn, "agents", name, "agent") is not None:
        raise Conflict(f"{name} is already the name of an agent and of its tools.")


_DESCRIPTION_PREFIX: Final = "Tools of "

_PRESERVED_METADATA: Final = ("required_states", "keywords", "load_with_parent")
"""Metadata that people set on a namespace and that survives its removal."""


def remove_server(tx: Change, server: Thing) -> None:
    """Remove a server and its tools; keep their equipment for a restore."""
    tx.conn.execute(
        update(things_table)
        .where(
            things_table.c.parent_id == server.id,
            things_table.c.kind == "tool",
            things_table.c.deleted_at.is_(None),
        )
        .values(available=0, deleted_at=tx.now, updated_at=tx.now)
    )
    things.update_thing(tx, server.id, available=0)
    things.delete_thing(tx, server)


def mark_unavailable(tx: Change, server_ids: Sequence[str]) -> None:
    """Mark servers and all their tools as unavailable."""
    for column in (things_table.c.parent_id, things_table.c.id):
        tx.conn.execute(
            update(things_table)
            .where(
                column.in_(server_ids),
                things_table.c.kind.in_(("tool", "mcp")),
                things_table.c.available == 1,
            )
            .values(available=0, updated_at=tx.now)
        )
    tx.publish_on_commit(WorldChanged(SERVERS_PARENT_ID))


def publish_listing(
    tx: Change, server_id: str, greeting: ServerInfo, listing: ToolListing, *, trust: bool
) -> ListingChanges:
    """Store the tool listing of a connected server in one change of the world.

    Raises:
        NotFound: if the server has been removed.
    """
    server = things.get_live_thing(tx.conn, server_id)
    approve = trust or not server.metadata.get("listed")
    before = {thing.id: thing for thing in _list_all_tools(tx.conn, server.id)}
    wanted, refused = _choose_tools(tx.conn, server, listing)
    found = _compare_tools(tx, server, wanted, before, approve=approve)
    gone = [t for t in before.values() if t.id not in wanted and t.deleted_at is None]
    _store_tools(tx, found.made, found.changed)
    _mark_tools_gone(tx, gone)
    updated = _update_server(tx, server, greeting, refused)
    if updated or found.made or found.changed or gone:
        tx.publish_on_commit(WorldChanged(SERVERS_PARENT_ID))
    return ListingChanges(
        tuple(found.added), tuple(found.waiting), tuple(tool.name for tool in gone)
    )


def _choose_tools(
    conn: Connection, server: Thing, listing: ToolListing
) -> tuple[dict[str, SanitizedTool], list[tuple[str, str]]]:
    """The listed tools whose names are free, by thing id, and the refused ones with the reason."""
    refused = list(listing.refused)
    wanted: dict[str, SanitizedTool] = {}
    taken = _taken_names(conn, server, listing)
    for tool in listing.tools:
        if tool.name in taken:
            refused.append((tool.name, "this name is already in use here"))
        else:
            wanted[tool_thing_id(server, tool.name)] = tool
    return wanted, refused


@dataclass(frozen=True, slots=True)
class _ToolChanges:
    """What a listing changes: columns of new and of known tools, and the names to report."""

    made: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


def _compare_tools(
    tx: Change,
    server: Thing,
    wanted: Mapping[str, SanitizedTool],
    before: Mapping[str, Thing],
    *,
    approve: bool,
) -> _ToolChanges:
    """Compare listed tools with the stored ones."""
    found = _ToolChanges()
    for thing_id, tool in wanted.items():
        known = before.get(thing_id)
        description, metadata = _merge_tool(known, tool, approve=approve)
        now_waits = bool(metadata.get("pending"))
        if now_waits and not (known and known.metadata.get("pending") == metadata["pending"]):
            found.waiting.append(tool.name)
        if known is None or known.deleted_at is not None:
            found.added.append(tool.name)
        columns = {
            "description": description or None,
            "metadata": things.dump_metadata(metadata),
            "qualified_name": f"{server.name}:{tool.name}",
            "updated_at": tx.now,
        }
        if known is None:
            created = {
                "id": thing_id,
                "parent_id": server.id,
                "kind": "tool",
                "name": tool.name,
                "available": 1,
                "created_at": tx.now,
            }
            found.made.append(columns | created)
        elif _differs(known, description, metadata):
            found.changed.append(
                {f"b_{name}": value for name, value in columns.items()} | {"b_id": known.id}
            )
    return found


def _update_server(
    tx: Change, server: Thing, greeting: ServerInfo, refused: Sequence[tuple[str, str]]
) -> bool:
    """Store what a connected server says of itself; return whether something changed."""
    said = {
        "listed": True,
        "version": greeting.version,
        "server": greeting.server,
        "era": greeting.era if greeting.era == "legacy" else None,
        "refused": [list(entry) for entry in refused] or None,
    }
    kept = {key: value for key, value in (server.metadata | said).items() if value is not None}
    # The server's own name is better than its URL; a description by people is better than both.
    own = not server.description or server.description.startswith(_DESCRIPTION_PREFIX)
    words = (
        f"{_DESCRIPTION_PREFIX}{greeting.server}" if own and greeting.server else server.description
    )
    if kept == server.metadata and server.available and words == server.description:
        return False
    tx.conn.execute(
        update(things_table)
        .where(things_table.c.id == server.id)
        .values(
            available=1,
            metadata=things.dump_metadata(kept),
            description=words,
            updated_at=tx.now,
        )
    )
    return True


def list_pending_tools(conn: Connection, name: str) -> list[Thing]:
    """Return a server's tools that wait for approval; empty for an unknown server."""
    server = things.get_thing(conn, server_thing_id(name))
    found = _list_all_tools(conn, server.id) if server is not None else []
    return [thing for thing in found if thing.deleted_at is None and thing.metadata.get("pending")]


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
    waits = list_pending_tools(tx.conn, server.name)
    chosen = [thing for thing in waits if tool in (None, thing.name, thing.qualified_name)]
    if not chosen:
        which = (
            f"{tool} of {server.name} is not waiting"
            if tool
            else f"No tool of {server.name} is waiting"
        )
        raise NotFound(f"{which} for approval.", hint=f"See /mcp show {server.name}.")
    unread = [
        t.name for t in chosen if read is not None and read.get(t.id) != current_fingerprint(t)
    ]
    if unread:
        raise Conflict(
            f"You have not read the current text of {', '.join(unread[:10])} from {server.name}.",
            hint=f"Read /mcp show {server.name}, then approve.",
        )
    for thing in chosen:
        pending = thing.metadata["pending"]
        rest = {k: v for k, v in thing.metadata.items() if k not in ("pending", "obstacle")}
        told = {key: pending[key] for key in _TOOL_FIELDS if pending.get(key) is not None}
        kept = {k: v for k, v in rest.items() if k not in _TOOL_FIELDS} | told
        things.update_thing(tx, thing.id, description=pending["description"] or None, metadata=kept)
    return [thing.name for thing in chosen]


def _merge_tool(
    known: Thing | None, tool: SanitizedTool, *, approve: bool
) -> tuple[str, dict[str, Any]]:
    """Return a tool's description and metadata, with the new text in use or pending."""
    said = asdict(tool)
    said["mended"] = list(tool.mended)
    told = {key: said[key] for key in _TOOL_FIELDS if said[key] not in (None, [], "", {})}
    told["input_schema"] = tool.input_schema
    old = known.metadata if known else {}
    rest = {k: v for k, v in old.items() if k not in (*_TOOL_FIELDS, "pending", "obstacle", "runs")}
    rest["runs"] = MCP_PROVIDER
    if approve or old.get("fingerprint") == tool.fingerprint:
        return tool.description, rest | told
    pending = told | {"description": tool.description}
    in_use = {key: old[key] for key in _TOOL_FIELDS if key in old}
    obstacle = CHANGED_OBSTACLE if "fingerprint" in old else NEW_OBSTACLE
    # Models never see a text that no person has approved, not even a description.
    description = known.description if known and "fingerprint" in old else ""
    return description, rest | in_use | {"remote": tool.remote} | {
        "pending": pending,
        "obstacle": obstacle,
    }


def _differs(known: Thing, description: str, metadata: dict[str, Any]) -> bool:
    return (
        not known.available
        or known.deleted_at is not None
        or known.description != description
        or known.metadata != metadata
    )


def _store_tools(tx: Change, made: list[dict[str, Any]], changed: list[dict[str, Any]]) -> None:
    if made:
        tx.conn.execute(insert(things_table), made)
    if changed:
        tx.conn.execute(
            update(things_table)
            .where(things_table.c.id == bindparam("b_id"))
            .values(
                description=bindparam("b_description"),
                metadata=bindparam("b_metadata"),
                qualified_name=bindparam("b_qualified_name"),
                updated_at=bindparam("b_updated_at"),
                available=1,
                deleted_at=None,
            ),
            changed,
        )


def _mark_tools_gone(tx: Change, gone: list[Thing]) -> None:
    if gone:
        tx.conn.execute(
            update(things_table)
            .where(things_table.c.id == bindparam("b_id"))
            .values(available=0, deleted_at=tx.now, updated_at=tx.now),
            [{"b_id": thing.id} for thing in gone],
        )


def _list_all_tools(conn: Connection, server_id: str) -> list[Thing]:
    """Return every tool a server ever had, removed ones included."""
    query = select(things_table).where(
        things_table.c.parent_id == server_id, things_table.c.kind == "tool"
    )
    return [things.thing_from_row(row) for row in conn.execute(query).mappings()]


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
    held = {row.qualified_name.removeprefix(prefix): row.id for row in rows}
    return {
        tool.name
        for tool in listing.tools
        if tool.name in held and held[tool.name] != tool_thing_id(server, tool.name)
    }


def _describe_server(settings: McpSettings) -> str:
    """Describe a server to models and people by host or program name.

    Only owners see its whole URL or command.
    """
    if settings.url is not None:
        return f"{_DESCRIPTION_PREFIX}{urlsplit(settings.url).hostname}"
    return f"{_DESCRIPTION_PREFIX}{Path(settings.command[0]).name}"
