"""The tools that are always there, whatever is equipped: how an external agent looks, talks, moves,
equips, calls what is equipped, and learns what happened.

All but two are verbs under a bare name. They are done as the verbs are when a person types them:
looking and waiting leave no trace of tool calls in the room.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sshwarma.common.limits import DEFAULT_WAIT_SECONDS, MAX_WAIT_SECONDS
from sshwarma.mcp.server.clients import Visit
from sshwarma.mcp.server.tool_list import as_object_schema, make_annotations, make_verb_tool
from sshwarma.mcp.server.wait_events import EventBatch, wait_events
from sshwarma.terminal.render import render_plain
from sshwarma.tools.call import ToolResult, Tools
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.registry import Verb, find_verb
from sshwarma.verbs.views import draw_result, dump_json
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid

OptionalProgressCallback = Callable[[str], None] | None
ToolRunner = Callable[[Visit, dict[str, Any], OptionalProgressCallback], Awaitable[ToolResult]]


@dataclass(frozen=True)
class BuiltinTool:
    """A tool that is always there."""

    tool: Tool
    scope: TokenScope
    run: ToolRunner


class UseToolArguments(BaseModel):
    """The arguments of `use_tool`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="The tool, as inventory_list or tools/list name it.")
    arguments: dict[str, Any] = Field({}, description="What to call it with, by name.")


class WaitEventsArguments(BaseModel):
    """The arguments of `wait_events`."""

    model_config = ConfigDict(extra="forbid")

    cursor: str | None = Field(
        None, description="The cursor of the last answer; left out, what happens from now on."
    )
    timeout: float = Field(
        DEFAULT_WAIT_SECONDS,
        ge=0,
        le=MAX_WAIT_SECONDS,
        description=f"Seconds to wait for the first event, {MAX_WAIT_SECONDS:.0f} at most.",
    )


_VERB_TOOLS: Final[Mapping[str, str]] = {
    "look": "look",
    "who": "who",
    "rooms": "rooms",
    "join": "join",
    "say": "say",
    "history": "history",
    "inventory_list": "inv",
    "inventory_equip": "equip",
    "inventory_unequip": "unequip",
    "list_rooms": "namespaces",
    "find_rooms": "find",
    "load_room": "load",
    "unload_room": "unload",
}
"""Verbs by the names they have here. The last four are in `global` too, for models; a list that
had them twice would cost twice."""

_BATCH_ADAPTER: Final = TypeAdapter(EventBatch)


def make_builtin_tools(tools: Tools) -> dict[str, BuiltinTool]:
    """The tools that are always there, by name."""
    found = {name: _make_verb_tool(name, _require_verb(verb)) for name, verb in _VERB_TOOLS.items()}
    found["use_tool"] = BuiltinTool(
        Tool(
            name="use_tool",
            title="Call an equipped tool",
            description="Call a tool that is equipped here, by any of its names. The room sees the"
            " call and its result. For clients whose list of tools is older than the equipment.",
            input_schema=_argument_schema(UseToolArguments),
            annotations=make_annotations(TokenScope.ACT, ours=False),
        ),
        TokenScope.ACT,
        partial(_use_tool, tools),
    )
    found["wait_events"] = BuiltinTool(
        Tool(
            name="wait_events",
            title="Wait for events",
            description="What others said and did in your room, and told you alone, since the"
            " cursor; waits for the first of it. Where `mention` is true somebody speaks to you:"
            " answer with say. Call it again with the cursor it gives.",
            input_schema=_argument_schema(WaitEventsArguments),
            output_schema=as_object_schema(_BATCH_ADAPTER.json_schema(mode="serialization")),
            annotations=make_annotations(TokenScope.READ),
        ),
        TokenScope.READ,
        _wait_events,
    )
    return found


def _require_verb(name: str) -> Verb:
    verb = find_verb(name)
    if verb is None:
        raise LookupError(f"there is no verb {name}")
    return verb


def _make_verb_tool(name: str, verb: Verb) -> BuiltinTool:
    return BuiltinTool(
        make_verb_tool(verb, name, _default_context_to_room(verb.input_schema)),
        verb.scope,
        partial(_run_verb, verb.name),
    )


def _default_context_to_room(schema: dict[str, Any]) -> dict[str, Any]:
    """To equip means to equip the room, unless something else is said."""
    if "context" not in schema.get("required", ()):
        return schema
    properties = dict(schema["properties"])
    properties["context"] = {**properties["context"], "default": "room"}
    required = [name for name in schema["required"] if name != "context"]
    return {**schema, "properties": properties, "required": required}


async def _run_verb(
    verb: str, visit: Visit, arguments: dict[str, Any], report: OptionalProgressCallback
) -> ToolResult:
    caller: Caller = visit.caller(report)
    if verb in ("equip", "unequip"):
        arguments = {"context": "room", **arguments}
    result = await invoke(caller, verb, arguments)
    return ToolResult(render_plain(draw_result(result)), dump_json(result))


async def _use_tool(
    tools: Tools, visit: Visit, arguments: dict[str, Any], report: OptionalProgressCallback
) -> ToolResult:
    asked = _validate_arguments(UseToolArguments, arguments)
    outcome = await tools.call(visit.caller(report), asked.name, asked.arguments)
    return ToolResult(
        outcome.text, outcome.structured, outcome.how != "result", given=outcome.given
    )


async def _wait_events(
    visit: Visit, arguments: dict[str, Any], report: OptionalProgressCallback
) -> ToolResult:
    asked = _validate_arguments(WaitEventsArguments, arguments)
    happened, text = await wait_events(
        partial(visit.caller, report), visit.guest, asked.cursor, asked.timeout
    )
    return ToolResult(text, _BATCH_ADAPTER.dump_python(happened, mode="json"))


def _argument_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    for part in (schema, *schema["properties"].values()):
        part.pop("title", None)
    schema.pop("description", None)
    return schema


def _validate_arguments(model: type[Any], arguments: dict[str, Any]) -> Any:
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise Invalid(f"The arguments are not right: {problems[:400]}.") from error
