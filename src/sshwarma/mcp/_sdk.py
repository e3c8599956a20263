"""The private names of the MCP SDK: the one file that may use them.

tests/mcp_client/test_sdk_shape.py holds the source this was written against. If it fails after an
upgrade, read the change first.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import httpx2
import mcp_types as types
from mcp.client import sse, streamable_http
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.session import ClientSession
from mcp.server.connection import Connection
from mcp.server.session import ServerSession

# Client sessions


async def request_tool_page(session: ClientSession, cursor: str | None) -> dict[str, Any]:
    """Return one page of the tool listing as the server sent it, unchecked.

    The SDK's own call fails whole over one invalid entry, and drops others without an error.

    Raises:
        MCPError: if the server refuses, or the connection ends.
    """
    params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
    data = types.ListToolsRequest(params=params).model_dump(
        by_alias=True, mode="json", exclude_none=True
    )
    options: Any = {}
    session._stamp(data, options)
    return await session._dispatcher.send_raw_request(data["method"], data.get("params"), options)


def accept_tool_listing(session: ClientSession, tools: Sequence[types.Tool]) -> None:
    """Give the SDK the tool listing that it uses to mirror headers and check results."""
    session._absorb_tool_listing(types.ListToolsResult(tools=list(tools)), complete=True)


def read_http_messages_with(reader: Any) -> None:
    """Have the HTTP transports of clients parse messages with `reader`.

    Their own adapter fails over one deep schema of a whole listing.
    """
    vars(streamable_http)["jsonrpc_message_adapter"] = reader
    vars(sse)["types"] = SimpleNamespace(jsonrpc_message_adapter=reader)


# OAuth providers


class AuthorizationSteps(OAuthClientProvider):
    """Public names for the two overridable steps of the SDK's OAuth flow."""

    def select_authorization_server(self, advertised: list[str]) -> str:
        """Choose one of the authorization servers that the MCP server names."""
        raise NotImplementedError

    def prepare_authorization(self) -> None:
        """Adjust `context` before the token request.

        Raises:
            OAuthFlowError: if authorization cannot continue.
        """
        raise NotImplementedError

    def expire_token(self) -> None:
        """Make the next request renew the token first."""
        self.context.token_expiry_time = 1.0  # long past; 0 would mean that it never expires

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return self.select_authorization_server(advertised)

    async def _perform_authorization(self) -> httpx2.Request:
        self.prepare_authorization()
        return await super()._perform_authorization()


class ClientCredentialsSteps(AuthorizationSteps, ClientCredentialsOAuthProvider):
    """The same steps for the SDK's client-credentials provider."""


# Server sessions


def connection_of(session: ServerSession) -> Connection:
    """Return the session's connection object, which has no public name."""
    return session._connection
