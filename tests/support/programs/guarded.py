"""An MCP server that needs a sign-in, with its authorization server, by the SDK.

`guarded.py PORT [TOKEN_SECONDS]` runs both. A browser that opens its page is alice, unasked.

    POST /control/expire     every access token is over
    POST /control/revoke     every token is
    POST /control/trouble    the token endpoint answers 503, until this is asked once more
    POST /control/slow       the token endpoint takes two seconds, until this is asked once more
    GET  /control/seen       what was asked of the token endpoint, how many clients registered, and
                             how many questions it answers slowly
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from functools import partial
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PORT = int(sys.argv[1])
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3600
HERE = f"http://127.0.0.1:{PORT}"


class Known:
    """Everything the authorization server knows; `OAuthAuthorizationServerProvider`."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.seen: list[str] = []
        self.trouble = False
        self.slow = False
        self.waiting = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject="alice",
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self.seen.append("code")
        del self.codes[authorization_code.code]
        return self._tokens(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        found = self.refresh.get(refresh_token)
        self.seen.append("refresh" if found else "refused")
        return found

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._tokens(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.seen.append("revoke")
        self.refresh.clear()
        self.access.clear()

    def _tokens(
        self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None
    ) -> OAuthToken:
        access, refresh = (f"guarded-{secrets.token_hex(16)}" for _ in range(2))
        about: dict[str, Any] = {
            "client_id": client.client_id, "scopes": scopes, "resource": resource,
            "subject": "alice",
        }  # fmt: skip
        self.access[access] = AccessToken(
            token=access, expires_at=int(time.time()) + SECONDS, **about
        )
        self.refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=SECONDS, scope=" ".join(scopes)
        )


known = Known()
pondering: list[asyncio.Event] = []
mcp = MCPServer(
    "guarded",
    auth_server_provider=known,  # type: ignore[arg-type]  # one grant is never asked for
    auth=AuthSettings(
        issuer_url=AnyHttpUrl(HERE),
        resource_server_url=AnyHttpUrl(f"{HERE}/mcp"),
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["read", "write"]
        ),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["read"],
        validate_token_resource=True,
    ),
)


@mcp.tool()
async def whoami() -> str:
    """Says who is signed in."""
    for waits in pondering:
        waits.set()
    token = get_access_token()
    return f"{token.subject} may {' '.join(token.scopes)}" if token else "nobody"


@mcp.tool()
async def ponder() -> str:
    """Takes as long as somebody calls whoami."""
    waits = asyncio.Event()
    pondering.append(waits)
    await waits.wait()
    return "Somebody asked."


async def control(request: Request) -> Response:
    match request.path_params["what"]:
        case "expire":
            known.access.clear()
        case "revoke":
            known.access.clear()
            known.refresh.clear()
        case "trouble":
            known.trouble = not known.trouble
        case "slow":
            known.slow = not known.slow
    return JSONResponse(
        {"seen": known.seen, "clients": len(known.clients), "waiting": known.waiting}
    )


class Troubled:
    """The application, with a token endpoint that fails while in trouble."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/token" and known.trouble:
            await Response("busy", status_code=503)(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == "/token" and known.slow:
            await self._app(scope, receive, partial(_slowly, send))
            return
        await self._app(scope, receive, send)


async def _slowly(send: Send, message: Message) -> None:
    """Send what was decided long before."""
    if message["type"] == "http.response.start":
        known.waiting += 1
        await asyncio.sleep(2)
        known.waiting -= 1
    await send(message)


# Answers as JSON begin only when they are there.
app = mcp.streamable_http_app(host="127.0.0.1", json_response=True)
app.router.routes.append(Route("/control/{what}", control, methods=["GET", "POST"]))
uvicorn.run(Troubled(app), host="127.0.0.1", port=PORT, log_level="warning")
