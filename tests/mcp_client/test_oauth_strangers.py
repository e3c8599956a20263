"""Sign-ins to servers that are wrong or hostile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sshwarma.mcp.client.credentials import AuthChallenge, CredentialStore, StoredCredentials
from sshwarma.mcp.client.pending_sign_in import ClientMetadata, PendingSignIn
from sshwarma.mcp.client.sdk.bearer import BearerAuth
from sshwarma.mcp.client.sdk.oauth import sign_in
from sshwarma.settings import McpSettings
from sshwarma.world.errors import WorldError
from support.http_server import serving


class Stranger(ThreadingHTTPServer):
    """Answers with given documents, by path, and remembers what it was asked."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, Any]] = {}
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), StrangerHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def describe(self, **more: Any) -> None:
        """Describe an authorization server and an MCP server; `more` replaces entries."""
        self.documents = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": f"{self.url}/mcp", "authorization_servers": [self.url]
            },
            "/.well-known/oauth-authorization-server": {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "code_challenge_methods_supported": ["S256"],
                **more,
            },
            "/register": {"client_id": "us", "redirect_uris": [ClientMetadata().redirect]},
        }  # fmt: skip


class StrangerHandler(BaseHTTPRequestHandler):
    server: Stranger

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.seen.append(self.path)
        found = self.server.documents.get(self.path)
        body = json.dumps(found).encode()
        status = 401 if self.path == "/mcp" else 200 if found else 404
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name is the interface's

    def log_message(self, *_: Any) -> None:
        """Nothing: what was asked is in `seen`."""


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    server = Stranger()
    with serving(server):
        yield server


async def tried(folder: Path, url: str, challenge: AuthChallenge | None, **more: Any) -> str:
    """Why signing in at a URL fails."""
    settings = McpSettings(name="strange", url=url, **more)
    credentials = CredentialStore(folder / "strange.json", url)
    credentials.challenge = challenge
    under_way = PendingSignIn("strange", ClientMetadata())
    with pytest.raises(WorldError) as caught:
        await sign_in(settings, credentials, under_way)
    assert under_way.page is None
    return str(caught.value)


@pytest.mark.parametrize("place", ["127.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]"])
async def test_metadata_url_on_a_private_address_is_refused(
    tmp_path: Path, stranger: Stranger, place: str
) -> None:
    port = stranger.server_address[1]
    challenge = AuthChallenge(401, f'Bearer resource_metadata="http://{place}:{port}/x"')
    why = await tried(tmp_path, "http://mcp.example/mcp", challenge)
    assert "is on this machine" in why or "is not allowed for servers" in why
    assert stranger.seen == []


async def test_oauth_without_tls_is_refused_for_https_servers(
    tmp_path: Path, stranger: Stranger
) -> None:
    challenge = AuthChallenge(401, f'Bearer resource_metadata="{stranger.url}/x"')
    why = await tried(tmp_path, "https://mcp.example/mcp", challenge, allow_private=True)
    assert "does not use TLS" in why
    assert stranger.seen == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, "does not support PKCE with S256"),
        ({"code_challenge_methods_supported": None}, "does not support PKCE with S256"),
        ({"issuer": "http://evil.example"}, "issuer mismatch"),
        ({"authorization_endpoint": "http://you@evil.example/"}, "user name or password"),
    ],
)
async def test_invalid_authorization_server_metadata_is_refused(
    tmp_path: Path, stranger: Stranger, more: dict[str, Any], why: str
) -> None:
    stranger.describe(**more)
    said = await tried(tmp_path, f"{stranger.url}/mcp", None, allow_private=True)
    assert why in said
    assert "/token" not in stranger.seen


async def test_server_without_sign_in_is_reported(tmp_path: Path, stranger: Stranger) -> None:
    why = await tried(tmp_path, f"{stranger.url}/mcp", None, allow_private=True)
    assert "it offers no sign-in. If it needs a key" in why
    stranger.describe(registration_endpoint=None)
    del stranger.documents["/register"]
    why = await tried(tmp_path, f"{stranger.url}/mcp", None, allow_private=True)
    assert "requires manual client registration" in why


async def test_only_scopes_named_by_the_server_are_requested(
    tmp_path: Path, stranger: Stranger
) -> None:
    stranger.describe(scopes_supported=["admin", "delete", "offline_access"])
    settings = McpSettings(name="strange", url=f"{stranger.url}/mcp", allow_private=True)
    credentials = CredentialStore(tmp_path / "strange.json", f"{stranger.url}/mcp")
    under_way = PendingSignIn("strange", ClientMetadata())
    flow = sign_in(settings, credentials, under_way)
    under_way.task = asyncio.create_task(flow)
    page = await under_way.wait_for_page()
    assert page.scope == "offline_access"
    under_way.task.cancel()
    await asyncio.gather(under_way.task, return_exceptions=True)


async def test_token_is_sent_only_to_its_own_server(tmp_path: Path) -> None:
    url = "https://mcp.example/mcp"
    credentials = CredentialStore(tmp_path / "a.json", url)
    await credentials.store(StoredCredentials(url, tokens={"access_token": "t0ken"}))
    lost: list[str] = []
    bearer = BearerAuth(McpSettings(name="a", url=url), credentials, lost.append)

    async def headers_to(where: str) -> httpx2.Headers:
        flow = bearer.async_auth_flow(httpx2.Request("POST", where))
        request = await anext(flow)
        await flow.aclose()
        return request.headers

    assert (await headers_to("https://mcp.example/other"))["Authorization"] == "Bearer t0ken"
    for other in ("http://mcp.example/mcp", "https://mcp.example:8443/mcp", "https://example/mcp"):
        assert "Authorization" not in await headers_to(other)
