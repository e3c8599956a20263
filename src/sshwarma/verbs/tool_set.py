"""The verb `tool set`: how a tool is shown, and who must allow its calls."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, TypeAlias

from pydantic import TypeAdapter, ValidationError

from sshwarma.common.shorten import shorten_name
from sshwarma.toolsets.manifest import Title
from sshwarma.toolsets.manifest_reading import describe_renderer_problems
from sshwarma.toolsets.renderers import check_renderer_config
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, ToolName, one_of
from sshwarma.verbs.tool import TOOL_RIGHTS, change_tool, tool
from sshwarma.verbs.tool_access import check_may_decide, find_tool
from sshwarma.verbs.views import Confirmation
from sshwarma.world import things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.things import Thing

NO_VALUE: Final = "-"
"""The value that withdraws a decision."""

FIELD_EXAMPLES: Final = {
    "approval": "on",
    "name": "Line chart",
    "renderer": '{"type": "code", "file": "$args.path"}',
}
"""Fields that can be set, each with an example."""


async def complete_fields(request: CompletionRequest) -> list[Option]:
    """List the fields of a tool."""
    return [(field, f"such as {example}") for field, example in FIELD_EXAMPLES.items()]


async def complete_values(request: CompletionRequest) -> list[Option]:
    """List the values of the field in `request.given`."""
    field = request.given[1] if len(request.given) > 1 else ""
    own = (NO_VALUE, "what the tool itself says")
    if field == "approval":
        return [("on", "each call waits for a person"), ("off", "calls need no approval"), own]
    return [(FIELD_EXAMPLES[field], "an example"), own] if field in FIELD_EXAMPLES else []


ToolField: TypeAlias = Annotated[str, Arg(complete=complete_fields), one_of(FIELD_EXAMPLES)]
ToolFieldValue: TypeAlias = Annotated[str, Arg("text", rest=True, complete=complete_values)]


@tool.verb(
    "set",
    needs=Right.ENTER,
    also_needs=TOOL_RIGHTS,
    scope=TokenScope.APPROVE,  # else a token could lift the approvals of what it calls
    tool=False,
    examples=(
        "/tool set charts:line_chart approval on",
        "/tool set charts:line_chart name Line chart",
        '/tool set kit:cat renderer {"type": "code", "file": "$args.path"}',
    ),
)
async def set_tool(
    caller: Caller, name: ToolName, field: ToolField, value: ToolFieldValue
) -> Confirmation:
    """Set how a tool is shown, and whether its calls wait for an approval.

    name is what lists show; calls use the tool's own name. renderer, for
    tools of toolsets and MCP servers, is an object as in a manifest. An import keeps these
    decisions.

    Args:
        name: the tool.
        field: approval, name or renderer.
        value: its new value; - takes what the tool itself says. Of approval: on, for calls that
            wait until a person allows them, or off.
    """
    thing = await find_tool(caller, name)
    await check_may_decide(caller, thing)
    decisions = await _read_decisions(caller, thing, field, value.strip())
    await change_tool(caller, thing, f"set {field} of", **decisions)
    if value.strip() == NO_VALUE:
        return Confirmation(f"{thing.label} has its own {field} again.")
    return Confirmation(_DONE[field].format(tool=thing.label, value=value.strip()))


_DONE: Final = {
    "approval": "Approval of calls of {tool}: {value}.",
    "name": "{tool} is shown as {value}.",
    "renderer": "Results of {tool} are shown by {value}.",
}


async def _read_decisions(caller: Caller, tool: Thing, field: str, value: str) -> dict[str, Any]:
    """Return what is decided, by the names of an override.

    Raises:
        Invalid: if the field or its value is not valid.
    """
    if field not in FIELD_EXAMPLES:
        known = ", ".join(FIELD_EXAMPLES)
        raise Invalid(f"field: choose one of: {known} (got {shorten_name(field)}).")
    is_reset = value == NO_VALUE
    match field:
        case "approval":
            if value not in ("on", "off", NO_VALUE):
                raise Invalid(
                    f"approval: choose on, off or {NO_VALUE} (got {shorten_name(value)})."
                )
            return {"requires_confirmation": None if is_reset else value == "on"}
        case "name":
            return {"name": None if is_reset else _read_title(value)}
    if is_reset:
        return {"renderer": None, "renderer_config": None}
    place = await caller.world.store.read(
        lambda conn: things.get_live_thing(conn, tool.parent_id or "world")
    )
    if place.kind not in ("toolset", "mcp"):
        raise Invalid(
            f"{tool.label} is no tool of a toolset or an MCP server, and has no renderer."
        )
    return _read_renderer(value)


def _read_title(value: str) -> str:
    try:
        return str(TypeAdapter(Title).validate_python(value))
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        reason = str(detail["msg"]).removeprefix("Value error, ")
        raise Invalid(f"name: {reason}.") from error


def _read_renderer(value: str) -> dict[str, Any]:
    example = FIELD_EXAMPLES["renderer"]
    try:
        config = json.loads(value)
    except ValueError as error:
        raise Invalid(f"renderer: must be JSON, such as {example} ({error}).") from error
    if not isinstance(config, dict):
        raise Invalid(f"renderer: must be an object, such as {example}.")
    name, place = config.pop("type", None), ("renderer",)
    if problems := "; ".join(describe_renderer_problems(name, config, place, (*place, "type"))):
        raise Invalid(f"{problems}.")
    return {"renderer": name, "renderer_config": check_renderer_config(name, config)}
