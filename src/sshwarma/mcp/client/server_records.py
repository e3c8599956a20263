"""Records of MCP servers as things: added, offered, restored and removed.

`listing_records` stores their tools, `tool_approval` decides which text of a tool is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from pydantic import ValidationError
from sqlalchemy import Connection, select, update

from sshwarma.settings import McpSettings
from sshwarma.world import rooms, things
from sshwarma.world.errors import Conflict, unknown_name_error
from sshwarma.world.events import WorldChanged
from sshwarma.world.reader import next_call
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

log = structlog.get_logger(__name__)

SERVERS_PARENT_ID: Final = "mcps"
"""Id of the container of all servers that are not offered."""

MCP_PROVIDER: Final = "mcp"
"""Provider name in the metadata of a tool."""

_ORIGIN_KEY: Final = "origin"
"""Key of where a server comes from: `settings`, `added` by an owner, or OFFERED_ORIGIN."""

_SETTINGS_ORIGIN: Final = "settings"

_TOOLSET_ORIGIN: Final = "toolset"

OFFERED_ORIGIN: Final = "offered"
"""Origin of a server that a person offers over ssh."""

DESCRIPTION_PREFIX: Final = "Tools of "
"""Beginning of a description that was written here, not by a person."""

SUMMARY_KEY: Final = "summary"
"""Key of the description that the texts of a server gave it; a person's may differ from it."""

_PRESERVED_METADATA: Final = ("required_states", "keywords", "load_with_parent")
"""Metadata that people set on a namespace and that survives its removal."""


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


def is_from_settings(server: Thing) -> bool:
    """Return whether a server is declared in the settings file."""
    return server.metadata.get(_ORIGIN_KEY) == _SETTINGS_ORIGIN


def is_offered(server: Thing) -> bool:
    """Return whether a person offers the server over ssh, while a channel is open."""
    return server.metadata.get(_ORIGIN_KEY) == OFFERED_ORIGIN


def is_of_toolset(server: Thing) -> bool:
    """Return whether a toolset declares the server, a child of its namespace."""
    return server.metadata.get(_ORIGIN_KEY) == _TOOLSET_ORIGIN


def list_servers(conn: Connection) -> list[Thing]:
    """Return all live servers that can be read, by name, without offered ones."""
    query = select(things_table).where(
        things_table.c.kind == "mcp", things_table.c.deleted_at.is_(None)
    )
    servers = []
    for row in conn.execute(query.order_by(things_table.c.name)).mappings():
        thing = things.thing_from_row(row)
        if "entry" in thing.metadata and not is_offered(thing):
            try:
                read_settings(thing)
            except (ValidationError, TypeError) as error:
                reason = f"what is stored of it cannot be read: {error!r}"
                log.warning("an mcp server was skipped", server=thing.name, reason=reason)
            else:
                servers.append(thing)
    return servers


def list_disabled_toolsets(conn: Connection) -> set[str]:
    """Return the ids of the namespaces of toolsets that are disabled."""
    query = select(things_table.c.id).where(
        things_table.c.kind == "toolset", things_table.c.enabled == 0
    )
    return set(conn.execute(query).scalars())


def list_offers(conn: Connection, room_id: str) -> list[Thing]:
    """Return the live servers offered in a room, sorted by name."""
    servers = things.read_children(conn, room_id, "mcp")
    return [server for server in servers if is_offered(server)]


def find_server(conn: Connection, name: str) -> Thing:
    """Return the live server of that name.

    Raises:
        NotFound: if no server has it.
    """
    thing = things.get_thing(conn, server_thing_id(name))
    if thing is None or thing.deleted_at is not None:
        thing = things.find_by_qualified_name(conn, name)
    if thing is None or thing.kind != "mcp":
        servers = [server.name for server in list_servers(conn)]
        raise unknown_name_error(
            "MCP server", name, known=servers, hint=next_call("{} lists them.", "mcp list")
        )
    return thing


def declare_server(
    tx: Change, settings: McpSettings, *, created_by: str | None, from_settings: bool
) -> Thing:
    """Create the thing of a server, or restore the removed one of that name.

    The tools of its first listing are approved automatically.

    Raises:
        Conflict: if the name is in use.
    """
    entry = settings.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    origin = _SETTINGS_ORIGIN if from_settings else "added"
    metadata: dict[str, Any] = {"entry": entry, _ORIGIN_KEY: origin}
    thing = things.get_thing(tx.conn, server_thing_id(settings.name))
    _check_name_free(tx.conn, settings.name, server_thing_id(settings.name))
    if thing is None:
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
    is_live = thing.deleted_at is None
    if is_live and is_of_toolset(thing):
        raise Conflict(f"{settings.name} is already an MCP server of a toolset.")
    if is_live and not from_settings:
        raise Conflict(
            f"An MCP server named {settings.name} already exists.",
            hint=next_call("Remove it first with {}.", "mcp remove", name=settings.name),
        )
    if is_live and {**thing.metadata, **metadata} == thing.metadata:
        return thing
    return _replace(tx, thing, settings, metadata, SERVERS_PARENT_ID)


def declare_bundled(
    tx: Change, settings: McpSettings, space: Thing, shown: dict[str, Any], created_by: str
) -> Thing:
    """Create, restore or change the thing of a server of a toolset.

    Args:
        tx: the change.
        settings: how it is reached.
        space: the namespace of the toolset.
        shown: columns of the view `toolset_mcp_servers`.
        created_by: who imports the toolset.

    Raises:
        Conflict: if the name is in use, or it is a server of somebody else.
    """
    own_id = server_thing_id(settings.name)
    _check_name_free(tx.conn, settings.name, own_id)
    entry = settings.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    metadata = {"entry": entry, _ORIGIN_KEY: _TOOLSET_ORIGIN, **shown}
    known = things.get_thing(tx.conn, own_id)
    if known is None:
        return things.create_thing(
            tx, space.id, "mcp", settings.name, id=own_id, qualified_name=settings.name,
            description=_describe_server(settings), metadata=metadata, created_by=created_by,
        )  # fmt: skip
    if known.deleted_at is None and known.parent_id != space.id:
        if is_of_toolset(known):
            owner = things.get_thing(tx.conn, str(known.parent_id))
            named = f" {owner.label}" if owner is not None else ""
            raise Conflict(
                f"{settings.name} is already an MCP server of the toolset{named}.",
                hint="Give it another id in the manifest, or uninstall that toolset first.",
            )
        raise Conflict(
            f"{settings.name} is already an MCP server.",
            hint=next_call("Remove it first with {}.", "mcp remove", name=settings.name),
        )
    return _replace(tx, known, settings, metadata, space.id)


def _replace(
    tx: Change, known: Thing, settings: McpSettings, metadata: dict[str, Any], parent_id: str
) -> Thing:
    """Change a server, or restore it in a place; what people set on it stays."""
    is_live = known.deleted_at is None
    if not is_live:  # the toolset that it was in may be gone
        tx.conn.execute(
            update(things_table).where(things_table.c.id == known.id).values(parent_id=parent_id)
        )
        things.restore_thing(tx, replace(known, parent_id=parent_id))
    kept = {key: value for key, value in known.metadata.items() if key in _PRESERVED_METADATA}
    return things.update_thing(
        tx,
        known.id,
        description=_describe_server(settings),
        metadata=kept | metadata,
        available=0,
        enabled=int(known.enabled) if is_live else 1,
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
    metadata: dict[str, Any] = {
        "entry": entry,
        _ORIGIN_KEY: OFFERED_ORIGIN,
        "load_with_parent": True,
    }
    thing = things.get_thing(tx.conn, own_id)
    if thing is None:
        return things.create_thing(
            tx,
            room_id,
            "mcp",
            settings.name,
            id=own_id,
            qualified_name=settings.name,
            description=f"{DESCRIPTION_PREFIX}someone in this room",
            metadata=metadata,
            created_by=created_by,
        )
    if thing.deleted_at is None:
        raise Conflict(f"{settings.name} is already offered here.")
    things.restore_thing(tx, thing)
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
        if is_offered(server):
            remove_server(tx, server)


def _check_name_free(conn: Connection, name: str, own_id: str) -> None:
    """Raise unless only the thing of that id has the name.

    Raises:
        Conflict: if a thing, room or agent has the name.
    """
    holder = things.find_by_qualified_name(conn, name)
    if holder is not None and holder.id != own_id:
        raise Conflict(f"{name} is already the name of {things.describe_kind(holder.kind)}.")
    if rooms.find_room_id(conn, name) is not None:
        raise Conflict(f"{name} is already the name of a room and of its tools.")
    if things.find_child(conn, "agents", name, "agent") is not None:
        raise Conflict(f"{name} is already the name of an agent and of its tools.")


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


def list_all_tools(conn: Connection, server_id: str) -> list[Thing]:
    """Return every tool a server ever had, removed ones included."""
    query = select(things_table).where(
        things_table.c.parent_id == server_id, things_table.c.kind == "tool"
    )
    return [things.thing_from_row(row) for row in conn.execute(query).mappings()]


def _describe_server(settings: McpSettings) -> str:
    """Describe a server to models and people by host or program name.

    Only owners see its whole URL or command.
    """
    if settings.url is not None:
        return f"{DESCRIPTION_PREFIX}{urlsplit(settings.url).hostname}"
    return f"{DESCRIPTION_PREFIX}{Path(settings.command[0]).name}"
