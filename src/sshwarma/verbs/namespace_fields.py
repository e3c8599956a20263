"""Texts about the fields of namespaces and tools that were set."""

from __future__ import annotations

from typing import Final

from sshwarma.common.shorten import join_with_rest
from sshwarma.world import namespaces
from sshwarma.world.things import Thing

MAX_NAMED_PLACES: Final = 8
"""Rooms and agents named where a namespace stays off; the rest are counted."""


def describe_exceptions(contexts: list[Thing]) -> str:
    """Describe where tools of a namespace stay off although it loads everywhere."""
    if not contexts:
        return ""
    places = [
        f"in {context.name}" if context.kind == "room" else f"on {context.name}"
        for context in contexts
    ]
    return (
        f" It is still switched off, fully or partly, {join_with_rest(places, MAX_NAMED_PLACES)}."
    )


def format_field(thing: Thing, field: str, text: str) -> str:
    """Format the parsed value of a field."""
    match field:
        case "keywords" | "required_states":
            return ", ".join(namespaces.read_metadata_words(thing, field))
        case "auto_load":
            return "on" if thing.auto_load else "off"
        case "enabled":
            return "on" if thing.enabled else "off"
        case "load_with_parent":
            return "on" if thing.metadata.get(field) else "off"
        case _:
            return text
