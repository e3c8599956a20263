"""A room of the world as a folder has it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from sqlalchemy import Connection

from sshwarma.building.room_folder import RoomFile, RoomFolder
from sshwarma.lua_tools.creation import is_lua_tool
from sshwarma.world import equipment, exits, namespaces, overrides, things, triggers
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.builtin_containers import DEFAULTS_ID
from sshwarma.world.rooms import parse_room
from sshwarma.world.things import Thing

ALL_MODELS = "*"
"""Stands for all models, where a room names none."""


def read_room_folder(
    conn: Connection, room_id: str, agents: AgentDirectory, known_ids: AbstractSet[str]
) -> RoomFolder:
    """Return a room as a folder has it, without exits to rooms that are not known."""
    thing = things.get_live_thing(conn, room_id)
    room = parse_room(thing, {})
    texts = things.read_children(conn, room_id, "data")
    links = things.read_children(conn, room_id, "reference")
    tools = [one for one in things.read_children(conn, room_id, "tool") if is_lua_tool(one)]
    equip, off = read_equipment(conn, thing)
    decided = {tool.name: overrides.read_tool_override(conn, tool) for tool in tools}
    models = [ALL_MODELS]
    if room.model_ids is not None:
        models = sorted(agents.name_of(model_id) for model_id in room.model_ids)
    file = RoomFile(
        description=room.description,
        vibe=room.vibe,
        access=room.mode,
        states=sorted(namespaces.read_metadata_words(thing, "states")),
        models=models,
        equip=equip,
        off=off,
        disabled=sorted(name for name, one in decided.items() if one.enabled is False),
        approval=sorted(name for name, one in decided.items() if one.requires_confirmation),
        triggers=sorted(
            one.name for one in triggers.list_triggers(conn, room_id) if not one.why_off
        ),
        exits={
            way.direction: way.to_name
            for way in exits.read_exits(conn, room_id)
            if way.to_id in known_ids
        },
        links={link.name: link.uri or "" for link in sorted(links, key=lambda one: one.name)},
    )
    return RoomFolder(
        room.name,
        file,
        {text.name: text.content or "" for text in texts},
        {tool.name: tool.content or "" for tool in tools},
    )


def read_equipment(conn: Connection, room: Thing) -> tuple[list[str], list[str]]:
    """Return labels of equipment that new rooms lack, and that this one lacks.

    Tools of the room itself are on anyway; its texts have bare names.
    """
    rows = equipment.read_equipped_rows(conn, (room.id, DEFAULTS_ID))
    own = {row.thing.id: row for row in rows if row.context_id == room.id}
    usual = {row.thing.id: row for row in rows if row.context_id == DEFAULTS_ID and row.equipped}
    equip = [
        row.thing
        for row in own.values()
        if row.equipped and row.thing.id not in usual
        and not (row.thing.kind == "tool" and row.thing.parent_id == room.id)
    ]  # fmt: skip
    off = [row.thing for row in own.values() if not row.equipped]
    off += [row.thing for row in usual.values() if row.thing.id not in own]
    return _list_labels(equip), _list_labels(off)


def _list_labels(found: list[Thing]) -> list[str]:
    return sorted(thing.label for thing in found)
