"""Built-in tools of the MCP server, listed regardless of equipment.

With them an external agent looks, talks, moves, equips things, calls equipped tools and waits for
events. All but two are verbs under a bare name and run as if a person typed them: looking and
waiting leave no tool calls in the room's log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sshwarma.common.limits import DEFAULT_WAIT_SECONDS, MAX_HEARD_ROOMS, MAX_WAIT_SECONDS
from sshwarma.common.validation_text import describe_validation_error
from sshwarma.events.event_types import Cursor
from sshwarma.mcp.server.clients import McpConnection
from sshwarma.mcp.server.tool_list import (
    BUILTIN_VERBS,
    make_annotations,
    make_verb_tool,
)
from sshwarma.mcp.server.wait_events import EventBatch, format_cursor, wait_events
from sshwarma.tools.call import Tools
from sshwarma.tools.call_outcome import add_changes
from sshwarma.tools.compact_schema import make_compact_schema
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.registry import Verb, find_verb
from sshwarma.verbs.views import render_in_thread
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import MCP_CLIENT

OptionalProgressCallback = Callable[[str], None] | None


@dataclass(frozen=True)
class BuiltinCall:
    """A call of a built-in tool; `position` is where it began in the world's log."""

    connection: McpConnection
    arguments: dict[str, Any]
    report: OptionalProgressCallback
    position: int

    def make_caller(self) -> Caller:
        """Return the agent as a caller, in its current room.

        Raises:
            Forbidden: if its access has ended.
        """
        return self.connection.make_caller(self.report)


ToolRunner = Callable[[BuiltinCall], Awaitable[ToolResult]]


@dataclass(frozen=True)
class BuiltinTool:
    """A built-in tool and the token scope that it needs."""

    tool: Tool
    scope: TokenScope
    run: ToolRunner


class UseToolArguments(BaseModel):
    """The arguments of `use_tool`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Tool name, as in inventory_list or tools/list.")
    arguments: dict[str, Any] = Field({}, description="Arguments of the tool, by name.")


class WaitEventsArguments(BaseModel):
    """The arguments of `wait_events`."""

    model_config = ConfigDict(extra="forbid")

    cursor: str | None = Field(
        None,
        description="Cursor of its last result; omit it for what happened since your last call of"
        " any tool.",
    )
    timeout: float = Field(
        DEFAULT_WAIT_SECONDS,
        ge=0,
        le=MAX_WAIT_SECONDS,
        description=f"Seconds to wait for the first event (at most {MAX_WAIT_SECONDS:.0f}).",
    )
    rooms: list[str] = Field(
        [],
        max_length=MAX_HEARD_ROOMS,
        description="Names of rooms to hear (default: your room).",
    )


USE_TOOL: Final = "use_tool"
WAIT_EVENTS: Final = "wait_events"

_VERBS_WITH_CURSOR: Final = ("say", "look", "join")
"""Verbs after which an agent waits: their results have the cursor where the call began."""

_VERBS_WITH_ROOM: Final = ("say", "history show")
"""Verbs that an agent uses in rooms where it is not: a bot hears several, and answers there."""

_ROOM_PARAMETER: Final = {"type": "string", "description": "Another room (default: yours)."}

_VERBS_WITH_KEY: Final = ("say", "tell")
_KEY_PARAMETER: Final = {"type": "string", "description": "Key: sent once in 24 h, if retried."}

_BATCH_ADAPTER: Final = TypeAdapter(EventBatch)


def make_builtin_tools(tools: Tools) -> dict[str, BuiltinTool]:
    """Return the built-in tools by name."""
    tools_by_name = {
        name: _make_verb_tool(name, verb)
        for verb in map(_require_verb, BUILTIN_VERBS)
        if (name := verb.mcp_tool) is not None
    }
    tools_by_name[USE_TOOL] = BuiltinTool(
        Tool(
            name=USE_TOOL,
            description="Call a loaded or equipped tool by name, even if tools/list does not show"
            " it yet. The room sees the call and its result.",
            input_schema=_argument_schema(UseToolArguments),
            annotations=make_annotations(TokenScope.ACT, is_builtin=False),
        ),
        TokenScope.ACT,
        partial(_use_tool, tools),
    )
    tools_by_name[WAIT_EVENTS] = BuiltinTool(
        Tool(
            name=WAIT_EVENTS,
            description="Wait for what others say and do in your room, and for private messages to"
            " you, after the cursor. An event with mention true addresses you: answer with the tool"
            " that its reply names as verb, with these arguments and the room, if any."
            " Call again with the returned cursor.",
            input_schema=_argument_schema(WaitEventsArguments),
            annotations=make_annotations(TokenScope.READ),
        ),
        TokenScope.READ,
        _wait_events,
    )
    return tools_by_name


def _require_verb(name: str) -> Verb:
    verb = find_verb(name)
    if verb is None:
        raise LookupError(f"there is no verb {name}")
    return verb


def _make_verb_tool(name: str, verb: Verb) -> BuiltinTool:
    tool = make_verb_tool(verb, name)
    schema = _default_context_to_caller(tool.input_schema)
    if verb.name in _VERBS_WITH_ROOM:
        schema = {**schema, "properties": {**schema["properties"], "room": _ROOM_PARAMETER}}
    if verb.name in _VERBS_WITH_KEY:
        schema = {**schema, "properties": {**schema["properties"], "once": _KEY_PARAMETER}}
    tool = tool.model_copy(update={"input_schema": schema})
    return BuiltinTool(tool, verb.scope, partial(_run_verb, verb.name))


def _default_context_to_caller(schema: dict[str, Any]) -> dict[str, Any]:
    """Make the caller the default of a required `context`, as in load_room."""
    if "context" not in schema.get("required", ()):
        return schema
    properties = dict(schema["properties"])
    properties["context"] = {**properties["context"], "default": "me"}
    required = [name for name in schema["required"] if name != "context"]
    return {**schema, "properties": properties, "required": required}


async def _run_verb(verb: str, call: BuiltinCall) -> ToolResult:
    arguments, caller = call.arguments, call.make_caller()
    if verb in ("equip", "unequip"):
        arguments = {"context": "me", **arguments}
    if verb in _VERBS_WITH_ROOM and "room" in arguments:
        room, arguments = _take_text(arguments, "room")
        caller = await caller.in_room(room)
    if verb in _VERBS_WITH_KEY and "once" in arguments:
        once, arguments = _take_text(arguments, "once")
        caller = replace(caller, once=once)
    result = await invoke(caller, verb, arguments)
    text, structured = await render_in_thread(MCP_CLIENT, result)
    if verb in _VERBS_WITH_CURSOR:
        cursor = str(Cursor({}, call.position))
        text = f"{text}\n{format_cursor(cursor)}"
        structured = {**structured, "cursor": cursor}
    return ToolResult(text, structured)


def _take_text(arguments: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    """Return an argument that is not of the verb itself, and the others.

    Raises:
        Invalid: if it is no text.
    """
    others = dict(arguments)
    value = others.pop(name)
    if not isinstance(value, str):
        raise Invalid(f"{name}: must be text.")
    return value, others


async def _use_tool(tools: Tools, call: BuiltinCall) -> ToolResult:
    request = _validate_arguments(USE_TOOL, UseToolArguments, call.arguments)
    outcome = await tools.call(call.make_caller(), request.name, request.arguments)
    return ToolResult(
        add_changes(outcome.text, outcome.changes),
        outcome.structured,
        outcome.ending != "result",
        attachments=outcome.attachments,
    )


async def _wait_events(call: BuiltinCall) -> ToolResult:
    request = _validate_arguments(WAIT_EVENTS, WaitEventsArguments, call.arguments)
    batch, text = await wait_events(
        call.make_caller,
        call.connection.client,
        request.cursor,
        request.timeout,
        request.rooms,
    )
    return ToolResult(text, _BATCH_ADAPTER.dump_python(batch, mode="json", exclude_none=True))


def _argument_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    for part in (schema, *schema["properties"].values()):
        part.pop("title", None)
    schema.pop("description", None)
    return make_compact_schema(schema)


def _validate_arguments(tool: str, model: type[Any], arguments: dict[str, Any]) -> Any:
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, detail['loc'])) or 'arguments'}: "
            f"{describe_validation_error(detail)}"
            for detail in error.errors(include_url=False)
        )
        raise Invalid(f"{tool}: {problems[:400]}.") from error
