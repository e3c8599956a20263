"""The method `completion/complete`."""

from __future__ import annotations

from mcp_types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ResourceTemplateReference,
)

from sshwarma.common.limits import MAX_PROTOCOL_COMPLETIONS
from sshwarma.mcp.server import resources
from sshwarma.mcp.server.request_context import RequestContext, caller_of, with_mcp_errors


async def complete_argument(ctx: RequestContext, params: CompleteRequestParams) -> CompleteResult:
    """Complete an argument of a resource template or prompt by its name.

    `room` and `bag` complete room names, `name` things in a bag, `agent` and `who` agents.
    """
    caller, argument, start = caller_of(ctx), params.argument.name, params.argument.value
    values: list[str] = []
    if argument in ("room", "bag"):
        values = await with_mcp_errors(resources.complete_room_names(caller, start))
    elif argument == "name" and isinstance(params.ref, ResourceTemplateReference):
        bag = ((params.context and params.context.arguments) or {}).get("bag", "me")
        values = await with_mcp_errors(resources.complete_thing_names(caller, bag, start))
    elif argument in ("agent", "who"):
        names = sorted(agent.name for agent in caller.world.agents)
        values = [name for name in names if name.startswith(start.lower())]
    return CompleteResult(
        completion=Completion(
            values=values[:MAX_PROTOCOL_COMPLETIONS],
            total=len(values),
            has_more=len(values) > MAX_PROTOCOL_COMPLETIONS,
        )
    )
