"""The verb lua: a line of Lua, run at once."""

from __future__ import annotations

import time
from dataclasses import replace

from sshwarma.services import services_of
from sshwarma.verbs.arguments import Lua
from sshwarma.verbs.registry import verb
from sshwarma.verbs.tool_views import ToolTestResult
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.things import Thing


@verb(
    "lua",
    section="Building",
    needs=Right.BUILD,
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/lua 6 * 7", "/lua host.call('sshwarma:look').name"),
)
async def lua(caller: Caller, text: Lua) -> ToolTestResult:
    """Run a line of Lua, and show its result only to you.

    It has what the script of a tool has: host.call, host.state, room, here, now. What it keeps in
    host.state() is there for your next line. The log keeps neither the line nor the calls that it
    makes. What these change or say is real.

    For people:
        /help scripts says what scripts have.

    Args:
        text: an expression, or a script of several lines, in Lua.
    """
    scripts = services_of(caller).lua_tools
    source = f"return {text}"
    try:
        await scripts.check_syntax("lua", source)
    except Invalid:
        source = text  # a statement; its own errors are those that its author can read
        await scripts.check_syntax("lua", source)
    script = Thing(f"lua {caller.agent.id}", None, "data", "lua", content=source)
    trial = replace(caller.inside_trial("lua"), command="lua")
    began = time.monotonic()
    with caller.world.open_requests.begin(caller.agent.id, room_id=caller.room_id):
        result = await scripts.run(trial, script, {})
    return ToolTestResult(
        tool="lua",
        ok=not result.is_error,
        text=result.text,
        structured=result.structured,
        printed=result.printed_lines,
        seconds=time.monotonic() - began,
    )
