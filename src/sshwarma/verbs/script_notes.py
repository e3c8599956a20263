"""Notes for those who store or equip a script that will not run as they think."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sshwarma.lua_tools.trigger_declaration import parse_trigger
from sshwarma.services import services_of
from sshwarma.verbs.commands import is_script_text
from sshwarma.verbs.registry import find_entry
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.names import COMMAND_PREFIX, TRIGGER_PREFIX
from sshwarma.wrap.snapshot import is_layer_script

_LUA_START: Final = re.compile(r"\s*(?:if|for|while|repeat|do|print|error|host)\b")
"""How a script may begin that is no script as a command."""


async def describe_scripts(caller: Caller, texts: Iterable[tuple[str, str]]) -> str:
    """Return notes on the scripts among texts; "" without any.

    Args:
        caller: who stores or equips them.
        texts: names and contents of things.
    """
    notes = [await _describe(caller, name, source) for name, source in texts]
    return " ".join(note for note in notes if note)


async def _describe(caller: Caller, name: str, source: str) -> str:
    command = name.removeprefix(COMMAND_PREFIX) if name.startswith(COMMAND_PREFIX) else ""
    if command and find_entry(command) is not None:
        return f"{name} never runs: the verb {command} goes first."
    if command and not is_script_text(source):
        if _LUA_START.match(source) and not await _find_error(caller, name, source):
            return f"{name} is a line to say and no script: let it begin with -- to run it as Lua."
        return ""
    is_trigger = name.startswith(TRIGGER_PREFIX)
    if not command and not is_trigger and not is_layer_script(name):
        return ""
    problem = await _find_error(caller, name, source)
    if not problem and is_trigger:
        try:
            parse_trigger(source)
        except Invalid as error:
            problem = error.message
    return f"{name} will not run until it is corrected. {problem}" if problem else ""


def describe_trigger(name: str) -> str:
    """Return a note on the trigger of a text with that name; "" for other texts."""
    if not name.startswith(TRIGGER_PREFIX):
        return ""
    plain = name.removeprefix(TRIGGER_PREFIX)
    return f"It does not run until somebody turns it on: trigger on {plain}."


async def _find_error(caller: Caller, name: str, source: str) -> str:
    """Return the syntax error of a script, with its line; "" without one."""
    try:
        await services_of(caller).lua_tools.check_syntax(name, source)
    except Invalid as error:
        return error.message
    return ""
