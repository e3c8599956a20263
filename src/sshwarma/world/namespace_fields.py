"""Settable fields of namespaces and tools: which a thing has, and their values."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common.limits import (
    MAX_NAMESPACE_WORDS,
    MAX_RETENTION_ACTIONS,
    MAX_TITLE_CHARACTERS,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.world import leave_out, overrides, things
from sshwarma.world.agents import check_server_role
from sshwarma.world.builtin_containers import GLOBAL_ID
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

STATE_NAME_PATTERN: Final = re.compile(r"[a-z][a-z0-9._-]{0,59}")
"""Name of a state that can be set by hand; a detected one may be `mcp:NAME`."""

TOOL_FIELDS: Final = ("keywords", "required_states", "leave_out")
"""Fields that can be set of a tool, too."""

_LEAVE_OUT: Final = "leave_out"


def split_action(field: str) -> tuple[str, str]:
    """Split `leave_out.ACTION` into field and action; else the action is ""."""
    name, dot, action = field.partition(".")
    return (name, action) if dot and name == _LEAVE_OUT else (field, "")


def set_namespace_field(tx: Change, thing: Thing, field: str, value: str) -> Thing:
    """Set a field of a namespace or a tool.

    Raises:
        Invalid: if there is no such field, or the value is not valid for it.
    """
    name, action = split_action(field)
    _check_settable(thing, name)
    match name:
        case "description":
            return things.update_thing(tx, thing.id, description=value or None)
        case "name" | "title":
            return things.set_metadata(tx, thing.id, title=_parse_title(value))
        case "keywords":
            return things.set_metadata(tx, thing.id, keywords=_parse_words(value.lower()))
        case "required_states":
            return things.set_metadata(tx, thing.id, required_states=_parse_states(value))
        case "load_with_parent":
            return things.set_metadata(
                tx, thing.id, load_with_parent=_parse_switch(field, value) or None
            )
        case "auto_load":
            return things.update_thing(tx, thing.id, auto_load=int(_parse_switch(field, value)))
        case "equip_role":
            role = check_server_role(value) if value else None
            return things.set_metadata(tx, thing.id, equip_role=role)
        case "enabled":
            return things.update_thing(tx, thing.id, enabled=int(_parse_switch(field, value)))
        case "leave_out":
            return _set_retention(tx, thing, field, action, value)
        case _:
            raise Invalid(f"A namespace has no field {shorten_name(field)}.")


def _check_settable(thing: Thing, field: str) -> None:
    """Check that a thing of this kind lets people set a field.

    Raises:
        Invalid: if only namespaces, or only tools, have it.
        Conflict: if the namespace `global` keeps its value.
    """
    match field:
        case "description" | "title" if thing.kind == "tool":
            raise Invalid(
                f"{field} is a field of namespaces, not of tools.",
                hint=next_call(
                    "{} describes the tool.", "tool describe", name=thing.label, text="TEXT"
                ),
            )
        case "enabled" if thing.kind == "tool":
            raise Invalid(
                "enabled is a field of namespaces, not of tools.",
                hint=(
                    next_call("{} disables it.", "tool disable", name=thing.label),
                    next_call("{} enables it.", "tool enable", name=thing.label),
                ),
            )
        case _ if thing.kind == "tool" and field not in TOOL_FIELDS:
            raise Invalid(
                f"{field} is a field of namespaces, not of tools.",
                hint=f"Of a tool, these can be set: {', '.join(TOOL_FIELDS)}.",
            )
        case "leave_out" if thing.kind != "tool":
            raise Invalid("leave_out is a field of tools, not of namespaces.")
        case "auto_load" if thing.id == GLOBAL_ID:
            raise Conflict("global is always loaded everywhere.")
        case "enabled" if thing.id == GLOBAL_ID:
            raise Conflict(
                "global cannot be disabled.",
                hint=next_call("{} disables one of its tools.", "tool disable", name="NAME"),
            )


def _set_retention(tx: Change, tool: Thing, field: str, action: str, value: str) -> Thing:
    """Set a policy of a tool for later contexts; "" takes what it declares."""
    try:
        if field != _LEAVE_OUT:
            leave_out.check_action(action)
        policy = leave_out.parse_policy(value) if value else None
    except ValueError as error:
        raise Invalid(
            f"{field}: {error} (got {shorten_name(value or action)}).", hint=leave_out.SHORT_HINT
        ) from None
    override = overrides.read_tool_override(tx.conn, tool)
    decided = leave_out.decide(override, action, policy)
    if decided is not None and len(decided) > MAX_RETENTION_ACTIONS:
        raise Invalid(f"At most {MAX_RETENTION_ACTIONS} actions of a tool can have a policy.")
    overrides.set_override(tx, tool, leave_out=decided)
    return tool


def _parse_title(value: str) -> str | None:
    """Parse the title of a namespace, which lists show beside its dotted name.

    Raises:
        Invalid: if it is too long, or has a character that cannot be printed.
    """
    if len(value) > MAX_TITLE_CHARACTERS or not value.isprintable():
        raise Invalid(f"title: must have at most {MAX_TITLE_CHARACTERS} characters, all printable.")
    return value or None


def _parse_words(value: str) -> list[str]:
    words = [word.strip() for word in value.replace("\n", ",").split(",")]
    words = list(dict.fromkeys(word for word in words if word and word != "-"))
    if len(words) > MAX_NAMESPACE_WORDS or any(
        len(word) > MAX_TITLE_CHARACTERS or not word.isprintable() for word in words
    ):
        raise Invalid(
            f"At most {MAX_NAMESPACE_WORDS} words, each of at most {MAX_TITLE_CHARACTERS}"
            " printable characters."
        )
    return words


def _parse_states(value: str) -> list[str]:
    """Parse names of states.

    Raises:
        Invalid: if one of them is not a valid name of a state.
    """
    states = _parse_words(value)
    for state in states:
        if not STATE_NAME_PATTERN.fullmatch(state.removeprefix("mcp:")):
            raise Invalid(
                f"{shorten_name(state)} cannot be the name of a state.",
                hint="Examples: ci-configured, project-loaded, mcp:NAME for a server.",
            )
    return states


def _parse_switch(field: str, value: str) -> bool:
    match value.strip().lower():
        case "on" | "yes" | "true" | "1":
            return True
        case "off" | "no" | "false" | "0":
            return False
        case _:
            raise Invalid(f"{field}: choose one of: on, off (got {shorten_name(value)}).")
