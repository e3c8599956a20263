"""Texts of the built-in tools for MCP clients, and input schemas without what costs tokens only.

The verbs' own descriptions serve every door. These tools are read by models that have no terminal
and pay for each word of the list, and each one says how it differs from its neighbours.
"""

from __future__ import annotations

from typing import Any, Final

INSTRUCTIONS: Final = """\
You are in a world of rooms, shared with people and models: look shows your room, join moves you.
say speaks to everyone in the room; @NAME in the text addresses one of them.
wait_events returns what others said and did since your last call; answer where mention is true.
Tools come in namespaces: find_rooms finds one for what you want to do, load_room adds its tools.
use_tool calls a loaded tool by name, also before your list of tools shows it.
An error says what to do instead.
"""

DESCRIPTIONS: Final = {
    "look": "Show your room: description, who is here, exits, things on the floor. Or show a thing,"
    " @agent or room.",
    "who": "List who is connected, and in which room.",
    "rooms": "List the rooms to stand in. Namespaces of tools are in list_rooms.",
    "join": "Go to a room, away from yours. For tools of a namespace, call load_room instead.",
    "say": "Say something to everyone in your room. @NAME in it addresses a person or asks a model;"
    " wait_events returns the answer.",
    "history": "Show the newest rows of your room's log. Reading it leaves no row.",
    "inventory_list": "Show which tools and texts are equipped in your room and on you.",
    "inventory_equip": "Equip single tools or texts, on yourself or for everyone in the room. For a"
    " namespace of tools, load_room is simpler.",
    "inventory_unequip": "Take back what was equipped there. A tool that is on there only through"
    " its namespace is switched off.",
    "list_rooms": "List the namespaces of tools, loaded or not. Rooms to stand in are in rooms.",
    "find_rooms": "Find the namespace of tools for a task. load_room then loads it.",
    "load_room": "Load a namespace of tools, so that you can call them. You stay in your room.",
    "unload_room": "Take back that a namespace was loaded there.",
}
"""Descriptions of the built-in tools that are verbs, by name."""

PARAMETER_TEXTS: Final = {
    "look": {"thing": "Name of a thing, an @agent or a room (default: your room)."},
    "join": {"room": "Name of the room, as in rooms."},
    "say": {"text": "The message; it may have several lines."},
    "inventory_list": {
        "inventory": "room, me, @agent or all (with what could be equipped; default: room and you)."
    },
    "inventory_equip": {
        "context": "me, room (for everyone in it) or @agent.",
        "patterns": "Names separated by commas; * stands for any text: git:log,git:diff or git:*.",
        "priority": "Order; smaller comes first (default 0).",
    },
    "inventory_unequip": {
        "context": "me, room (for everyone in it) or @agent.",
        "patterns": "Names, as in inventory_equip.",
        "off": "Switch them off there, whatever else equips them.",
    },
    "find_rooms": {"query": "The task in your own words; empty lists all."},
    "load_room": {
        "room": "Name of the namespace, as in list_rooms.",
        "context": "me, room (for everyone in it) or @agent.",
        "include_children": "Also the namespaces inside it.",
    },
    "unload_room": {
        "room": "Name of the namespace, as in list_rooms.",
        "context": "me, room (for everyone in it) or @agent.",
        "include_children": "Also the namespaces inside it.",
        "off": "Switch it off there, whatever else loads it.",
    },
}
"""Descriptions of their parameters, where they differ from the verbs'."""

MAX_EXACT_INTEGER: Final = 2**53
"""Bound of every integer argument, which needs no mention."""


def make_compact_schema(schema: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """Return an input schema without bounds and nulls that tell a caller nothing.

    A parameter that is not required may be left out: that says what `null` and a default of null
    would. `texts` replace descriptions.
    """
    properties = (
        {
            name: _compact_property(part, texts.get(name))
            for name, part in schema["properties"].items()
        }
        if "properties" in schema
        else {}
    )
    compact = {key: value for key, value in schema.items() if key != "properties"}
    return {**compact, "properties": properties} if properties else compact


def _compact_property(schema: dict[str, Any], text: str | None) -> dict[str, Any]:
    part = dict(schema)
    choices = part.get("anyOf", ())
    others = [choice for choice in choices if choice != {"type": "null"}]
    if len(others) == 1 and len(choices) == 2:
        del part["anyOf"]
        part = {**others[0], **part}
    if part.get("default", "") in (None, "", False):
        part.pop("default", None)
    if part.get("maximum") == MAX_EXACT_INTEGER:
        del part["maximum"]
    if text is not None:
        part["description"] = text
    return part
