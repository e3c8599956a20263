"""The methods `tools/list` and `tools/call`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.mcp.server.builtin_tools import (
    USE_TOOL,
    WAIT_EVENTS,
    BuiltinCall,
    make_builtin_tools,
)
from sshwarma.mcp.server.call_result import make_refusal, to_call_result
from sshwarma.mcp.server.progress import progress_reporter
from sshwarma.mcp.server.refusals import REFUSED_CODE
from sshwarma.mcp.server.request_context import (
    RequestContext,
    caller_of,
    mcp_connection_of,
    to_mcp_error,
)
from sshwarma.mcp.server.tool_list import ToolListCache, paginate
from sshwarma.tools.call import Tools
from sshwarma.tools.call_outcome import add_changes
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import access, rows
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.causes import is_of_program
from sshwarma.world.errors import WorldError
from sshwarma.world.reader import MCP_CLIENT

log = structlog.get_logger(__name__)


class ToolMethods:
    """Lists and calls the tools that a request's agent has in its room.

    `line_rate` is the rate limit of each agent's lines and calls at all doors. `notify_own_changes`
    is called with each request and its agent's tool list before it, when its result is known.
    """

    def __init__(
        self,
        tools: Tools,
        line_rate: LineRateLimiter,
        tool_lists: ToolListCache,
        notify_own_changes: Callable[[RequestContext, object], Awaitable[None]],
    ) -> None:
        self._tools = tools
        self._line_rate = line_rate
        self._tool_lists = tool_lists
        self._notify_own_changes = notify_own_changes
        self._builtin_tools = make_builtin_tools(tools)

    async def list_tools(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Return a page of the tools; the first page begins with the built-in ones."""
        caller = caller_of(ctx)
        tool_list = await self._tool_lists.get_tool_list(caller)
        cursor = params.cursor if params else None
        page, next_cursor = paginate(tool_list.tools, cursor, lambda tool: tool.name)
        if cursor is None:
            builtin = self._builtin_tools.values()
            page = [*(item.tool for item in builtin if caller.scope.allows(item.scope)), *page]
        if next_cursor is None:
            mcp_connection_of(ctx).client.note_tool_list()
        return ListToolsResult(tools=page, next_cursor=next_cursor)

    async def call_tool(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; a refusal or failure is an error result, not a protocol error.

        Raises:
            MCPError: if the access of the request ended.
        """
        connection = mcp_connection_of(ctx)
        is_of_program.set(True)
        try:
            async with progress_reporter(ctx) as report:
                changes = self._is_ordered(params)
                async with connection.client.call_order.wait_for_earlier(changes=changes):
                    caller = connection.make_caller(report)
                    if caller.connection is not None:
                        caller.connection.mark_active()
                    position = await caller.world.store.read(rows.read_newest_number)
                    call = BuiltinCall(connection, params.arguments or {}, report, position)
                    tools_before = (await self._tool_lists.get_tool_list(caller)).signature
                    result = await connection.run_call(self._call(caller, params.name, call))
                if params.name != WAIT_EVENTS:  # it sets its own position
                    connection.client.set_position(position)
                await self._notify_own_changes(ctx, tools_before)
                return to_call_result(result)
        except WorldError as error:
            if connection.ended.is_set():
                raise to_mcp_error(error, REFUSED_CODE) from error
            return make_refusal(error.text_for(MCP_CLIENT))
        except Exception:
            log.exception("a tool call failed", tool=params.name)
            return make_refusal(INTERNAL_ERROR)

    def _is_ordered(self, params: CallToolRequestParams) -> bool:
        """Return whether later calls of the agent wait for this one."""
        name: object = params.name
        if name == USE_TOOL:
            name = (params.arguments or {}).get("name")
        return isinstance(name, str) and self._tool_lists.is_changing_verb(name)

    def _count_change(self, caller: Caller) -> None:
        """Count a call that changes something, as a line that is typed.

        Raises:
            RateLimited: if there were too many.
        """
        unit = "calls that change something"
        self._line_rate.check(caller.agent.id, "call it again", unit)

    async def _call(self, caller: Caller, name: str, call: BuiltinCall) -> ToolResult:
        builtin = self._builtin_tools.get(name)
        if builtin is not None:
            self._check_scope(caller, builtin.scope)
            if builtin.scope is not TokenScope.READ:
                self._count_change(caller)
            return await builtin.run(call)
        item = (await self._tool_lists.get_tool_list(caller)).names.find(name)
        self._check_scope(
            caller, TokenScope.ACT if item is None else self._tool_lists.scope_of(item)
        )
        if item is None or self._tool_lists.changes(item):
            self._count_change(caller)
        outcome = await self._tools.call(caller, name, call.arguments)
        return ToolResult(
            add_changes(outcome.text, outcome.changes),
            outcome.structured,
            outcome.ending != "result",
            attachments=outcome.attachments,
        )

    def _check_scope(self, caller: Caller, needed: TokenScope) -> None:
        if not caller.scope.allows(needed):
            raise access.missing_scope_error(needed, caller.scope)
