"""The methods `prompts/list` and `prompts/get`."""

from __future__ import annotations

from mcp_types import (
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    PaginatedRequestParams,
)

from sshwarma.mcp.server import prompts
from sshwarma.mcp.server.request_context import RequestContext, caller_of, with_mcp_errors
from sshwarma.mcp.server.tool_list import paginate


class PromptMethods:
    """Lists and fills the prompts that are equipped for a request's agent."""

    async def list_prompts(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """Return a page of the prompts."""
        entries = await with_mcp_errors(prompts.list_prompts(caller_of(ctx)))
        page, next_cursor = paginate(
            entries, params.cursor if params else None, lambda one: one.name
        )
        return ListPromptsResult(prompts=page, next_cursor=next_cursor)

    async def get_prompt(
        self, ctx: RequestContext, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        """Return a prompt's messages, filled with the arguments.

        Raises:
            MCPError: if the prompt is not equipped, or an argument is missing.
        """
        return await with_mcp_errors(
            prompts.fill_prompt(caller_of(ctx), params.name, params.arguments or {})
        )
