"""The methods `resources/list`, `resources/templates/list` and `resources/read`."""

from __future__ import annotations

from mcp_types import (
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from sshwarma.mcp.server import resources
from sshwarma.mcp.server.request_context import (
    RequestContext,
    caller_of,
    to_mcp_error,
    with_mcp_errors,
)
from sshwarma.mcp.server.tool_list import paginate
from sshwarma.world.errors import WorldError


class ResourceMethods:
    """Lists and reads the resources that a request's agent may read."""

    async def list_resources(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return a page of the resources."""
        entries = await with_mcp_errors(resources.list_resources(caller_of(ctx)))
        page, next_cursor = paginate(
            entries, params.cursor if params else None, lambda one: one.uri
        )
        return ListResourcesResult(resources=page, next_cursor=next_cursor)

    async def list_resource_templates(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return all resource templates."""
        return ListResourceTemplatesResult(resource_templates=list(resources.RESOURCE_TEMPLATES))

    async def read_resource(
        self, ctx: RequestContext, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult:
        """Return the contents of a resource.

        Raises:
            MCPError: if it does not exist, or the agent may not read it.
        """
        try:
            contents = await resources.read_resource(caller_of(ctx), params.uri)
        except WorldError as error:
            raise to_mcp_error(error, data={"uri": params.uri}) from error
        return ReadResourceResult(contents=list(contents))
