"""Connection and caller of an MCP request, and refusals as protocol errors."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from sshwarma.mcp.server.clients import McpConnection
from sshwarma.terminal.escape import escape_lines
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError
from sshwarma.world.reader import MCP_CLIENT

RequestContext = ServerRequestContext[Any, Any]
T = TypeVar("T")

CONNECTION_KEY: Final = "sshwarma.connection"
"""Key of the connection in the ASGI scope of an HTTP request."""


def mcp_connection_of(ctx: RequestContext) -> McpConnection:
    """Return the connection of a request.

    The endpoint stores it in the scope of an HTTP request; that of an ssh channel is the lifespan
    context of its server.

    Raises:
        MCPError: if the request has no connection, which is an error in the program.
    """
    connection = (
        ctx.lifespan_context if ctx.request is None else ctx.request.scope.get(CONNECTION_KEY)
    )
    if not isinstance(connection, McpConnection):
        raise MCPError(INTERNAL_ERROR, "The request has no agent.")
    return connection


def caller_of(ctx: RequestContext) -> Caller:
    """Return the caller of a request, in its current room.

    Raises:
        MCPError: if the connection has ended.
    """
    try:
        return mcp_connection_of(ctx).make_caller()
    except WorldError as error:
        raise to_mcp_error(error) from error


def to_mcp_error(
    refused: WorldError, code: int = INVALID_PARAMS, data: dict[str, Any] | None = None
) -> MCPError:
    """Return a refusal as a protocol error of the same text; controls are shown."""
    return MCPError(code, escape_lines(refused.text_for(MCP_CLIENT)), data)


async def with_mcp_errors(work: Awaitable[T]) -> T:
    """Await `work`; raise its WorldError as an MCPError with the same text."""
    try:
        return await work
    except WorldError as error:
        raise to_mcp_error(error) from error
