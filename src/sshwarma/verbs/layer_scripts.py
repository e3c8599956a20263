"""Syntax errors of scripts that make layers of a context.

Those who store or equip the scripts read them.
"""

from __future__ import annotations

from collections.abc import Iterable

from sshwarma.services import services_of
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.wrap.snapshot import is_layer_script


async def describe_broken_scripts(caller: Caller, texts: Iterable[tuple[str, str]]) -> str:
    """Return the syntax errors of layer scripts, with their lines; "" without any.

    Args:
        caller: who stores or equips them.
        texts: names and contents of things; all but such scripts are skipped.
    """
    problems: list[str] = []
    for name, source in texts:
        if not is_layer_script(name):
            continue
        try:
            await services_of(caller).lua_tools.check_syntax(name, source)
        except Invalid as error:
            problems.append(f"{name} will not run until it is corrected. {error.message}")
    return " ".join(problems)
