"""MCP resources: rooms, logs, rows, attachments, texts and namespaces by URI.

    room://NAME          a room's description, or a namespace's tools
    room://NAME/log      the newest rows of a room's log
    row://NAME/SEQ       one whole row
    row://NAME/SEQ/N     attachment N of a row's tool result
    thing://BAG/NAME     a text or link in a room's bag, or in the agent's own (`me`)
    memory://WHOSE       the keys of a memory: `project`, that of the room's, or `session`
    memory://WHOSE/KEY   the value of a key of it

An agent can read every room that it may enter, from any room.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_RESOURCE_LOG_ROWS, MAX_RESOURCE_URI_CHARACTERS
from sshwarma.common.shorten import shorten_name
from sshwarma.mcp.server import memory_resources
from sshwarma.terminal.render import render_plain
from sshwarma.verbs.attachment import read_attachment
from sshwarma.verbs.log_rows import RowDisplayOptions, draw_row
from sshwarma.verbs.look import read_room_details
from sshwarma.verbs.namespace import all_listed, read_namespace_details
from sshwarma.verbs.namespace_views import NamespaceDetails, NamespaceSummary
from sshwarma.verbs.views import dump_json, render_for
from sshwarma.world import rows, things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, unknown_name_error
from sshwarma.world.reader import MCP_CLIENT
from sshwarma.world.row import Row
from sshwarma.world.things import Thing

TIMESTAMPED_READING: Final = RowDisplayOptions(timestamps=True, reader=MCP_CLIENT)

RESOURCE_TEMPLATES: Final = (
    ResourceTemplate(
        uri_template="room://{room}",
        name="room",
        title="A room, or a namespace of tools",
        description="A room: its description, who is there, its exits and its things.",
    ),
    ResourceTemplate(
        uri_template="room://{room}/log",
        name="log",
        title="The log of a room",
        description=f"The newest {MAX_RESOURCE_LOG_ROWS} rows: messages and tool calls there.",
    ),
    ResourceTemplate(
        uri_template="row://{room}/{seq}",
        name="row",
        title="One row of a log",
        description="One whole row, by its number in the room.",
    ),
    ResourceTemplate(
        uri_template="row://{room}/{seq}/{number}",
        name="attachment",
        title="An attachment of a tool result",
        description="An image, sound or file of a tool's result, numbered from 1.",
    ),
    ResourceTemplate(
        uri_template="thing://{bag}/{name}",
        name="thing",
        title="A text or link",
        description="A data or reference thing in a room's bag, or in your own (`me`).",
    ),
    ResourceTemplate(
        uri_template="memory://{memory}",
        name="memory",
        title="The keys of a memory",
        description="The keys of the memory `project` or `session` of your room.",
    ),
    ResourceTemplate(
        uri_template="memory://{memory}/{key}",
        name="memory_value",
        title="A value of a memory",
        description="The text of a key of the memory `project` or `session` of your room.",
    ),
)


@dataclass(frozen=True, slots=True)
class ResourceAddress:
    """A parsed resource URI; `bag` is the name of a room, or `me`, or a memory."""

    kind: Literal["room", "log", "row", "attachment", "thing", "memory"]
    bag: str
    name: str = ""
    number: int = 0


def parse_uri(uri: str) -> ResourceAddress:
    """Parse a resource URI.

    Raises:
        NotFound: if it is not a resource of this server.
    """
    scheme, separator, rest = uri.partition("://")
    parts = [unquote(part) for part in rest.split("/")]
    if separator and len(uri) <= MAX_RESOURCE_URI_CHARACTERS and all(parts):
        match scheme, parts:
            case "room", [name]:
                return ResourceAddress("room", name)
            case "room", [name, "log"]:
                return ResourceAddress("log", name)
            case "row", [name, seq] if seq.isdecimal() and len(seq) < 16:
                return ResourceAddress("row", name, seq)
            case "row", [name, seq, number] if (
                f"{seq}{number}".isdecimal() and len(seq) < 16 and len(number) < 4
            ):
                return ResourceAddress("attachment", name, seq, int(number))
            case "thing", [bag, name]:
                return ResourceAddress("thing", bag, name)
            case "memory", ["project" | "session" as whose]:
                return ResourceAddress("memory", whose)
            case "memory", ["project" | "session" as whose, key]:
                return ResourceAddress("memory", whose, key)
    raise unknown_name_error("resource", uri, hint="See resources/templates/list.")


def make_uri(scheme: str, *parts: str) -> str:
    """Return the URI of a resource, with its parts escaped."""
    return f"{scheme}://{'/'.join(quote(part, safe='') for part in parts)}"


async def list_resources(caller: Caller) -> list[Resource]:
    """Return the resources of a caller, sorted by URI.

    These are the rooms it may enter, namespaces, and texts and links in its room's bag and its own.
    """
    resources = [
        Resource(
            uri=make_uri("room", room.name),
            name=room.name,
            title=f"Room {room.name}",
            description=room.description or room.vibe or None,
        )
        for room in await caller.readable_rooms()
    ]
    names = {resource.name for resource in resources}
    resources += [
        Resource(
            uri=make_uri("room", space.id),
            name=space.name,
            title=f"Namespace {space.id}",
            description=space.description or _count_tools(space.tools),
            _meta=_namespace_meta(space),
        )
        for space in await all_listed(caller)
        if space.id not in names
    ]
    room = await caller.room()
    for bag, bag_id in ((room.name, room.id), ("me", caller.agent.id)):
        texts = await caller.world.memoized(("texts", bag_id), partial(_list_texts, bag_id=bag_id))
        resources += [
            Resource(
                uri=make_uri("thing", bag, thing.name),
                name=thing.name,
                description=thing.description or None,
                mime_type="text/plain",
                size=len(_thing_text(thing).encode()),
            )
            for thing in texts
            if thing.metadata.get("role") not in ("state", "memory")
        ]
    return sorted(resources, key=lambda resource: resource.uri)


def _count_tools(tools: int) -> str:
    return f"{tools} tool{'' if tools == 1 else 's'}"


def _namespace_meta(space: NamespaceSummary) -> dict[str, Any]:
    """Return whether a namespace is available and loaded, and its missing states."""
    state: dict[str, Any] = {"available": space.available, "loaded": space.loaded}
    return state | ({"missing": list(space.missing)} if space.missing else {})


async def read_resource(
    caller: Caller, address: str
) -> list[TextResourceContents] | list[BlobResourceContents]:
    """Read a resource: text and JSON; text only for a thing; bytes for an attachment.

    Raises:
        NotFound: if it does not exist, or must not be known to the caller.
        Forbidden: if the caller may not read it.
    """
    place = parse_uri(address)
    match place.kind:
        case "room":
            try:
                room_caller = await caller.in_room(place.bag)
            except NotFound:
                space = await _find_namespace(caller, place.bag)
                return _make_contents(address, render_for(MCP_CLIENT, space), dump_json(space))
            details = await read_room_details(room_caller)
            return _make_contents(address, render_for(MCP_CLIENT, details), dump_json(details))
        case "log":
            room_caller = await caller.in_room(place.bag)
            log_rows = await caller.world.last_rows(room_caller.room_id, MAX_RESOURCE_LOG_ROWS)
            return _make_contents(address, *_render_rows(caller, log_rows))
        case "row":
            room_caller = await caller.in_room(place.bag)
            seq = int(place.name)
            row = await caller.world.store.read(
                lambda conn: rows.read_numbered(conn, room_caller.room_id, seq)
            )
            if row is None:
                raise NotFound(f"Unknown row {seq} in {shorten_name(place.bag)}.")
            return _make_contents(address, *_render_rows(caller, [row]))
        case "attachment":
            room_caller = await caller.in_room(place.bag)
            attachment = await read_attachment(room_caller, int(place.name), place.number)
            return [
                BlobResourceContents(uri=address, mime_type=attachment.kind, blob=attachment.data)
            ]
        case "thing":
            thing = await _find_thing(caller, place)
            return [
                TextResourceContents(uri=address, mime_type="text/plain", text=_thing_text(thing))
            ]
        case "memory":
            text = await memory_resources.read_text(caller, place.bag, place.name)
            return [TextResourceContents(uri=address, mime_type="text/plain", text=text)]


async def check_readable(caller: Caller, address: str) -> None:
    """Raise unless the caller may read a resource.

    Raises:
        NotFound, Forbidden: as `read_resource`.
    """
    place = parse_uri(address)
    if place.kind == "thing":
        await _find_thing(caller, place)
        return
    if place.kind == "memory":
        await memory_resources.read_text(caller, place.bag, place.name)
        return
    try:
        await caller.in_room(place.bag)
    except NotFound:
        if place.kind != "room":
            raise
        await _find_namespace(caller, place.bag)


async def resource_signature(
    caller: Caller, address: str, changed: Collection[str], spoken: Collection[str]
) -> object:
    """Return a value that differs from the last one if a resource may have changed.

    Args:
        caller: The reader.
        address: The resource's URI.
        changed: Ids of rooms whose description has changed.
        spoken: Ids of rooms with new rows.

    Returns:
        The signature, or None if the resource has not changed.

    Raises:
        NotFound, Forbidden: as `read_resource`.
    """
    place = parse_uri(address)
    if place.kind == "thing":
        thing = await _find_thing(caller, place)
        return thing.id, thing.updated_at
    if place.kind == "memory":
        return await memory_resources.read_signature(caller, place.bag, place.name)
    try:
        room_id = (await caller.in_room(place.bag)).room_id
    except NotFound:
        if place.kind != "room":
            raise
        return await _find_namespace(caller, place.bag)
    if room_id in (changed if place.kind == "room" else spoken):
        return object()
    return None


async def complete_room_names(caller: Caller, start: str) -> list[str]:
    """Return the rooms with this prefix that the caller may enter."""
    return [
        room.name for room in await caller.readable_rooms() if room.name.startswith(start.lower())
    ]


async def complete_thing_names(caller: Caller, bag: str, start: str) -> list[str]:
    """Return the texts and links of a bag with this prefix."""
    bag_id = await _find_bag_id(caller, bag)
    texts = await caller.world.store.read(partial(_list_texts, bag_id=bag_id))
    return [thing.name for thing in texts if thing.name.startswith(start)]


async def _find_thing(caller: Caller, place: ResourceAddress) -> Thing:
    bag_id = await _find_bag_id(caller, place.bag)
    thing = await caller.world.store.read(
        lambda conn: things.find_child(conn, bag_id, place.name, "data", "reference")
    )
    if thing is None:
        location = f"in the bag of {shorten_name(place.bag)}"
        raise unknown_name_error("thing", place.name, where=location)
    return thing


async def _find_bag_id(caller: Caller, bag: str) -> str:
    return caller.agent.id if bag == "me" else (await caller.in_room(bag)).room_id


def _list_texts(conn: Connection, bag_id: str) -> list[Thing]:
    return things.read_children(conn, bag_id, "data", "reference")


def _thing_text(thing: Thing) -> str:
    return (thing.uri if thing.kind == "reference" else thing.content) or ""


async def _find_namespace(caller: Caller, name: str) -> NamespaceDetails:
    """Return a namespace by name; if it does not exist, report a missing room."""
    try:
        return await read_namespace_details(caller, name)
    except NotFound:
        raise unknown_name_error("room", name, hint="See resources/list.") from None


def _render_rows(caller: Caller, found: list[Row]) -> tuple[str, Any]:
    agents = caller.world.agents
    text = "\n".join(
        render_plain(draw_row(row, agents, caller.agent.id, TIMESTAMPED_READING)) for row in found
    )
    values = [
        {
            "seq": row.seq,
            "kind": row.kind,
            "who": agents.name_author(row),
            "text": row.content,
            "at": row.created_at,
        }
        for row in found
    ]
    return text, {"rows": values}


def _make_contents(address: str, text: str, value: Any) -> list[TextResourceContents]:
    return [
        TextResourceContents(uri=address, mime_type="text/plain", text=text),
        TextResourceContents(
            uri=address,
            mime_type="application/json",
            text=json.dumps(value, ensure_ascii=False),
        ),
    ]
