"""The parts of the MCP SDK that `mcp._sdk` leans on have not changed.

If this fails after an upgrade: read the change in each part named, adapt our use of it if it must
be, then put the new digest here. The OAuth steps decide which authorization server is believed.
"""

from __future__ import annotations

import inspect
import re

import pytest
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.server.session import ServerSession

from support.source_digest import digest_of

READ_AT = "2.3.0"

DIGESTS = {
    "mcp.client.session:ClientSession._absorb_tool_listing": "3ea5ad0b1138",
    "mcp.client.session:ClientSession.list_tools": "858279b13774",
    "mcp.client.session:ClientSession.send_request": "9ec6424e7e32",
    "mcp.client.session:_make_handshake_stamp": "ed762315680c",
    "mcp.client.session:_make_modern_stamp": "559e63255cd8",
    "mcp.client.session:_preconnect_stamp": "dc4f1e6f0d35",
    "mcp.client.auth.oauth2:OAuthContext.is_token_valid": "93a4d4881a18",
    "mcp.client.auth.oauth2:OAuthContext.can_refresh_token": "8f557698bd54",
    "mcp.client.auth.oauth2:OAuthClientProvider._auth_flow": "2887e9c67763",
    "mcp.client.auth.oauth2:OAuthClientProvider._initialize": "19197aeb34c0",
    "mcp.client.auth.oauth2:OAuthClientProvider._perform_authorization": "d6a2adc24ba4",
    "mcp.client.auth.oauth2:OAuthClientProvider._select_authorization_server": "a89c89c7b22d",
    "mcp.client.auth.extensions.client_credentials:ClientCredentialsOAuthProvider": "c1d004303787",
    "mcp.client.sse:sse_client": "4c0885fb877a",
    "mcp.client.streamable_http:StreamableHTTPTransport._handle_json_response": "f3f20fd8062a",
    "mcp.client.streamable_http:StreamableHTTPTransport._handle_sse_event": "64e4568971d1",
    "mcp.server.session:ServerSession.__init__": "6d8e4a7dae65",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_overridden_sdk_code_is_unchanged(name: str) -> None:
    assert digest_of(name) == DIGESTS[name], f"{name} changed since {READ_AT}; read it first"


@pytest.mark.parametrize(
    ("kind", "attribute"),
    [
        (ClientSession, "_stamp"),
        (ClientSession, "_dispatcher"),
        (ServerSession, "_connection"),
        (OAuthClientProvider, "context"),
    ],
)
def test_attributes_that_we_read_exist(kind: type, attribute: str) -> None:
    assert re.search(rf"\bself\.{attribute}\b.* = ", inspect.getsource(kind))
