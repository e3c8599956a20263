"""Lua tools and commands: people's scripts, run in separate processes.

A script gets its arguments and a description of its surroundings, as data. Its `host.call` goes
through `Tools.call` as its caller, with its caller's loadout: it has no more rights than its
caller, and all its actions are in the room's log as its caller's.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from sshwarma.common.limits import (
    CALL_TIMEOUT_SECONDS,
    MAX_CALL_DEPTH,
    MAX_CALLS_PER_SCRIPT,
    MAX_RUNNING_SCRIPTS,
    MAX_RUNNING_SCRIPTS_PER_AGENT,
    MAX_SCRIPT_INPUT_BYTES,
    MAX_SCRIPT_LOG_BYTES,
    MAX_SCRIPT_MEMORY_BYTES,
    MAX_SCRIPT_RESULT_BYTES,
    MAX_WAITING_SCRIPTS_PER_AGENT,
    SCRIPT_CPU_SECONDS,
    SCRIPT_TIMEOUT_SECONDS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.lua_tools.state_calls import STATE_CALL, answer_state_call
from sshwarma.tools.arguments import get_input_schema
from sshwarma.tools.call import Tools
from sshwarma.tools.provider import ToolProvider, ToolResult
from sshwarma.tools.result_check import format_value
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.reader import Hint
from sshwarma.world.resources import resource_dir
from sshwarma.world.things import Thing
from sshwarma.wrap.host import HostCallback, LuaError, LuaHost, LuaLimits, LuaScript

LUA_PROVIDER: Final = "lua"
"""The provider name in the metadata of a Lua tool."""

SCRIPT_LIMITS: Final = LuaLimits(
    run_seconds=SCRIPT_CPU_SECONDS,
    total_seconds=SCRIPT_TIMEOUT_SECONDS,
    max_memory_bytes=MAX_SCRIPT_MEMORY_BYTES,
    max_output_bytes=MAX_SCRIPT_RESULT_BYTES,
    max_log_bytes=MAX_SCRIPT_LOG_BYTES,
    max_input_bytes=MAX_SCRIPT_INPUT_BYTES,
    max_calls=MAX_CALLS_PER_SCRIPT,
    # A script waits while its callee runs, in a process of its own, and never for a callee's slot.
    max_concurrent_runs=MAX_RUNNING_SCRIPTS * MAX_CALL_DEPTH,
)

MAX_PRESENT_NAMES: Final = 50
"""Maximum number of names of present agents that a script gets."""


class LuaToolProvider(ToolProvider):
    """Provider of Lua tools, which also runs commands.

    What a script calls, it calls by `tools`.
    """

    timeout_seconds = CALL_TIMEOUT_SECONDS

    def __init__(self, host: LuaHost, tools: Tools) -> None:
        self._host = host
        self._tools = tools
        self._driver = LuaScript(
            "tool.lua", (resource_dir("embedded") / "tool.lua").read_text(encoding="utf-8")
        )
        self._slots = _ScriptSlots()

    def why_unavailable(self, tool: Thing) -> str:
        """Return an empty reason: a Lua tool is as available as the server."""
        return ""

    def unavailable_hint(self, tool: Thing) -> Hint:
        """Return an empty hint, for the same reason."""
        return ""

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        """Run a Lua tool; an error in it is a failed result with its place."""
        call_arguments = _default_arguments(get_input_schema(tool)) | arguments
        return _name_nothing(await self._run(caller, tool.name, tool, {"args": call_arguments}))

    async def run_command(
        self, caller: Caller, script: Thing, text: str, words: list[str]
    ) -> ToolResult:
        """Run a script that was typed as a command, with the words after its name."""
        name = f"/{script.name.removeprefix('command:')}"
        arguments = {"args": text, "words": words}
        return _name_nothing(await self._run(caller.inside_call(name), name, script, arguments))

    async def run_trigger(
        self, caller: Caller, script: Thing, event: Mapping[str, Any]
    ) -> ToolResult:
        """Run the script of a trigger for an event, which it has as `event`.

        Its text is "" if it returns nothing.
        """
        return await self._run(
            caller.inside_call(script.name), script.name, script, {"event": event}
        )

    async def check_syntax(self, name: str, source: str) -> None:
        """Raise unless a script is valid Lua.

        Raises:
            Invalid: naming the line of the syntax error.
        """
        call = {"source": source, "name": name, "given": {}, "seed": 0}
        try:
            await self._host.run([self._driver, LuaScript(name, "")], "check", call)
        except LuaError as error:
            raise Invalid(f"Lua syntax error: {self._place_error(error)}.") from error

    async def _run(
        self, caller: Caller, name: str, script: Thing, arguments: dict[str, Any]
    ) -> ToolResult:
        log_lines: list[str] = []
        call = {
            "source": script.content or "",
            "name": name,
            "given": arguments | await _describe_surroundings(caller),
            "seed": secrets.randbits(63),
        }
        # The second script is there for its name: errors of the source are reported under it.
        scripts = [self._driver, LuaScript(name, "")]
        nested = caller.call_stack is not None and caller.call_stack.is_nested
        try:
            async with self._slots.acquire(caller.agent.id, nested=nested):
                value = await self._host.run(
                    scripts, "run", call,
                    call=self._make_host_call(caller, script), log=log_lines.append,
                )  # fmt: skip
        except LuaError as error:
            return ToolResult(
                self._place_error(error), is_error=True, printed_lines=tuple(log_lines)
            )
        structured = value if isinstance(value, dict | list) else None
        return ToolResult(render_value(value), structured, printed_lines=tuple(log_lines))

    def _place_error(self, error: LuaError) -> str:
        """Return the message of an error, with its place unless that is in the driver.

        A script that ends in a tail call, or that Lua cannot parse to its end, has no line left.
        """
        return error.message if error.script == self._driver.name else str(error)

    def _make_host_call(self, caller: Caller, script: Thing) -> HostCallback:
        """Carry out `host.call` and `host.state` of a script."""
        inner_caller = caller.inside_script(script.label)

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            if name == STATE_CALL:
                return await answer_state_call(caller, script, arguments)
            outcome = await self._tools.call(inner_caller, name, arguments)
            if outcome.ending != "result":
                names_tool = outcome.text.startswith(outcome.tool)
                raise Unavailable(outcome.text if names_tool else f"{outcome.tool}: {outcome.text}")
            return outcome.text if outcome.structured is None else outcome.structured

        return call


def _name_nothing(result: ToolResult) -> ToolResult:
    """Return a result with words where a script has returned and printed nothing."""
    if result.text or result.printed_lines:
        return result
    return replace(result, text="(no result)")


def render_value(value: Any) -> str:
    """Format a script's result: a flat table as a value a line, a deeper one as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case dict() if value and all(map(_is_single_line, value.values())):
            return "\n".join(f"{name}: {_format_scalar(inner)}" for name, inner in value.items())
        case [*items] if items and all(map(_is_single_line, items)):
            return "\n".join(map(_format_scalar, items))
        case dict() | list():
            return format_value(value)
        case _:
            return _format_scalar(value)


def _is_single_line(value: Any) -> bool:
    return not isinstance(value, dict | list) and not (isinstance(value, str) and "\n" in value)


def _format_scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


async def _describe_surroundings(caller: Caller) -> dict[str, Any]:
    world, room = caller.world, await caller.room()
    people = world.presence.in_room(room.id, MAX_PRESENT_NAMES)
    return {
        "caller": {"name": caller.agent.name, "kind": caller.agent.kind},
        "room": {"name": room.name, "description": room.description, "vibe": room.vibe},
        "here": sorted(world.agents.name_of(present.agent_id) for present in people),
        "now": int(time.time()),
    }


def _default_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name: described["default"]
        for name, described in schema.get("properties", {}).items()
        if "default" in described
    }


class _ScriptSlots:
    """Slots for running scripts.

    A script that another script called needs no slot: its caller holds one, and waits.
    """

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(MAX_RUNNING_SCRIPTS)
        self._of: dict[str, asyncio.Semaphore] = {}
        self._wanted: dict[str, int] = {}

    @asynccontextmanager
    async def acquire(self, agent_id: str, *, nested: bool) -> AsyncIterator[None]:
        """Hold a slot.

        Raises:
            Unavailable: if too many of the agent's scripts are waiting.
        """
        if nested:
            yield
            return
        count = self._wanted.get(agent_id, 0)
        if count >= MAX_RUNNING_SCRIPTS_PER_AGENT + MAX_WAITING_SCRIPTS_PER_AGENT:
            count_refusal("scripts")
            problem = with_limit("Too many waiting scripts of yours", MAX_WAITING_SCRIPTS_PER_AGENT)
            raise Unavailable(f"{problem}.", hint="Retry when one has finished.")
        self._wanted[agent_id] = count + 1
        try:
            async with (
                self._of.setdefault(agent_id, asyncio.Semaphore(MAX_RUNNING_SCRIPTS_PER_AGENT)),
                self._all,
            ):
                yield
        finally:
            self._wanted[agent_id] -= 1
            if not self._wanted[agent_id]:
                del self._wanted[agent_id], self._of[agent_id]
