"""The OAuth callback page of sign-ins to MCP servers.

The authorization server redirects the person's browser here. A callback counts only if it holds
the secret of a pending sign-in.
"""

from __future__ import annotations

from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sshwarma.mcp.client.oauth_sign_in import CLIENT_DOCUMENT_PATH, OAuthSignIns
from sshwarma.mcp.client.pending_sign_in import CALLBACK_PATH, LOOPBACK_REDIRECT, ClientMetadata
from sshwarma.settings import HttpSettings, split_address
from sshwarma.world.errors import WorldError

RESPONSE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""Headers that keep the callback URL, which holds an authorization code, from third parties."""


def make_client_metadata(settings: HttpSettings, port: int | None) -> ClientMetadata:
    """Make our client metadata: the redirect URI and the client-id document.

    Without a public URL the redirect goes to loopback. It reaches this server only if the browser
    runs on the same machine; otherwise the person pastes the address.
    """
    if settings.public_url:
        public = settings.public_url
        document = public + CLIENT_DOCUMENT_PATH if public.startswith("https://") else ""
        return ClientMetadata(public + CALLBACK_PATH, document)
    if port is None:
        return ClientMetadata(LOOPBACK_REDIRECT)
    host = split_address(settings.listen)[0]
    return ClientMetadata(
        f"http://{'[::1]' if host == '::1' else '127.0.0.1'}:{port}{CALLBACK_PATH}"
    )


def oauth_callback_routes(sign_ins: OAuthSignIns) -> dict[str, ASGIApp]:
    """Return the ASGI applications by path."""

    async def callback(scope: Scope, receive: Receive, send: Send) -> None:
        await _handle_callback(sign_ins, Request(scope))(scope, receive, send)

    async def document(scope: Scope, receive: Receive, send: Send) -> None:
        await _serve_client_metadata(sign_ins.client_metadata)(scope, receive, send)

    return {CALLBACK_PATH: callback, CLIENT_DOCUMENT_PATH: document}


def _handle_callback(sign_ins: OAuthSignIns, request: Request) -> Response:
    if request.method != "GET":
        return _render_page(405, "Method not allowed: use GET.")
    try:
        name = sign_ins.accept_callback(dict(request.query_params))
    except WorldError as error:
        return _render_page(400, str(error))
    return _render_page(200, f"Received the sign-in response for {name}. You can close this page.")


def _serve_client_metadata(metadata: ClientMetadata) -> Response:
    """Serve the client-id document; authorization servers use its URL as client id."""
    if not metadata.document:
        return JSONResponse({"error": "not_found"}, status_code=404)
    return JSONResponse(
        {
            "client_id": metadata.document,
            "client_name": "sshwarma",
            "redirect_uris": [metadata.redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
    )


def _render_page(status: int, text: str) -> Response:
    page = f"<!doctype html><title>sshwarma</title><p>{escape(text)}</p>"
    return HTMLResponse(page, status, RESPONSE_HEADERS)
