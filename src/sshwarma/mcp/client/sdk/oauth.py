"""OAuth 2.1 client, on top of the SDK, which this module imports.

The SDK's provider implements the steps: discovery of the authorization server, client registration,
PKCE, state, `iss`. This module drives it one request at a time and sends every request through the
transport that checks addresses, because all these URLs come from untrusted servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from sshwarma.common.limits import OAUTH_REQUEST_TIMEOUT_SECONDS
from sshwarma.common.shorten import shorten_name
from sshwarma.mcp.client.address import Resolver, resolve_host
from sshwarma.mcp.client.credentials import AuthChallenge, CredentialStore, StoredCredentials
from sshwarma.mcp.client.pending_sign_in import PendingSignIn
from sshwarma.mcp.client.sanitize import strip_invisible
from sshwarma.mcp.client.sdk import http
from sshwarma.mcp.client.sdk.oauth_provider import (
    MachineOAuthProvider,
    UserOAuthProvider,
    check_oauth_url,
    make_challenge_response,
    make_registered_client,
)
from sshwarma.settings import McpSettings
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.reader import Hint, TextByReader

MAX_ERROR_CHARACTERS: Final = 200

TRANSIENT_ERRORS: Final = ("server_error", "slow_down", "temporarily_unavailable")
"""OAuth error codes that are worth a retry."""

SendRequest: TypeAlias = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class SignInEnded(Exception):
    """The authorization server rejected the sign-in for good."""


class AuthorizationServerError(Exception):
    """The authorization server failed; a retry may help."""


async def sign_in(
    settings: McpSettings,
    credentials: CredentialStore,
    under_way: PendingSignIn,
    resolve: Resolver = resolve_host,
) -> None:
    """Sign a person in to a server and store the tokens.

    Raises:
        WorldError: if it fails, with the reason.
    """
    provider = UserOAuthProvider(settings, credentials, under_way)
    request = _make_ping_request(settings)
    async with _open_sender(settings, resolve) as send:
        try:
            challenge = credentials.challenge or await _fetch_challenge(settings, send)
            await _drive_flow(provider, request, make_challenge_response(challenge, request), send)
        except (
            OAuthFlowError,
            ValidationError,
            AuthorizationServerError,
            httpx2.HTTPError,
            OSError,
        ) as error:
            if "invalid_client" in str(error):  # the server has forgotten our registration
                await credentials.store(replace(credentials.stored, client=None))
            reason, hint = _explain_no_registration(provider, error)
            reason = reason or describe_error(error)
            raise Unavailable(
                f"The sign-in to {settings.name} failed: {reason}.", hint=hint
            ) from error
    credentials.challenge, credentials.wanted_scope = None, ""


def _explain_no_registration(provider: UserOAuthProvider, error: Exception) -> tuple[str, Hint]:
    """Return reason and hint for a server without dynamic client registration."""
    metadata = provider.context.oauth_metadata
    if not isinstance(error, OAuthRegistrationError):
        return "", ""
    if metadata is None:
        return "it offers no sign-in", TextByReader(
            "If it needs a key, add the server with --header.",
            "If it needs a key, add the server with the argument header.",
        )
    if metadata.registration_endpoint is None:
        issuer = urlsplit(str(metadata.issuer)).netloc
        return f"{issuer} requires manual client registration", TextByReader("See /help sign-in.")
    return "", ""


async def renew_tokens(
    settings: McpSettings, credentials: CredentialStore, resolve: Resolver = resolve_host
) -> None:
    """Get a new access token with the refresh token or the client credentials.

    Raises:
        SignInEnded: if the authorization server refuses.
        AuthorizationServerError: if the authorization server fails or cannot be reached.
    """
    stored = credentials.stored
    request, answer = _make_ping_request(settings), None
    provider: UserOAuthProvider | MachineOAuthProvider
    if settings.oauth_machine:
        provider = MachineOAuthProvider(settings, credentials)
        challenge = credentials.challenge or AuthChallenge(401)
        answer = make_challenge_response(challenge, request)
    else:
        provider = UserOAuthProvider(settings, credentials, None)
        if stored.issuer is not None:
            metadata = OAuthMetadata.model_validate(stored.issuer)
            if settings.oauth_issuer and not issuers_match(
                str(metadata.issuer), settings.oauth_issuer
            ):
                raise SignInEnded("the settings name another authorization server")
            provider.context.oauth_metadata = metadata
        if stored.resource is not None:
            prm = ProtectedResourceMetadata.model_validate(stored.resource)
            provider.context.protected_resource_metadata = prm
        provider.expire_token()
    error_codes: list[str] = []
    async with _open_sender(settings, resolve) as send:

        async def send_and_check(outgoing: httpx2.Request) -> httpx2.Response:
            response = await send(outgoing)
            if outgoing.method == "POST" and response.status_code not in (200, 201, 307, 308):
                code = _read_error_code(response)
                if response.status_code not in (400, 401) or code in TRANSIENT_ERRORS:
                    raise AuthorizationServerError(f"it responded with {code}")
                error_codes.append(code)
            return response

        try:
            await _drive_flow(provider, request, answer, send_and_check)
        except SignInEnded as ended:
            raise SignInEnded(error_codes[0] if error_codes else str(ended)) from ended
        except (OAuthFlowError, ValidationError) as error:
            raise SignInEnded(error_codes[0] if error_codes else describe_error(error)) from error
        except (httpx2.HTTPError, WorldError, OSError) as error:
            raise AuthorizationServerError(describe_error(error)) from error
    if error_codes or "Authorization" not in request.headers:
        raise SignInEnded(
            error_codes[0] if error_codes else "its response violates the OAuth protocol"
        )


async def revoke(
    settings: McpSettings, credentials: StoredCredentials, resolve: Resolver = resolve_host
) -> None:
    """Revoke the tokens if the authorization server supports it; ignore failures."""
    tokens, endpoint = (
        credentials.tokens or {},
        (credentials.issuer or {}).get("revocation_endpoint"),
    )
    token = tokens.get("refresh_token") or tokens.get("access_token")
    if not endpoint or not token or credentials.client is None:
        return
    try:
        metadata = OAuthClientMetadata(redirect_uris=None)
        context = OAuthContext(credentials.url, metadata, _Nothing(), None, None)
        context.client_info = (
            make_registered_client(settings, None)
            if settings.oauth_client_id
            else OAuthClientInformationFull.model_validate(credentials.client)
        )
        data = {"token": str(token), "client_id": context.client_info.client_id}
        data, headers = context.prepare_token_auth(data, {})
        async with _open_sender(settings, resolve) as send:
            await send(httpx2.Request("POST", str(endpoint), data=data, headers=headers))
    except (
        OAuthFlowError,
        ValidationError,
        httpx2.HTTPError,
        AuthorizationServerError,
        WorldError,
        OSError,
    ):
        return


class _Nothing:
    """Token storage that stores nothing."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Do nothing."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing."""


async def _drive_flow(
    provider: OAuthClientProvider,
    request: httpx2.Request,
    challenge: httpx2.Response | None,
    send: SendRequest,
) -> None:
    """Run the provider's flow until it has signed `request`.

    `request` itself is never sent; `challenge` stands for the server's refusal of it.
    """
    flow = provider.async_auth_flow(request)
    try:
        outgoing = await anext(flow)
        while True:
            if outgoing is not request:
                outgoing = await flow.asend(await send(outgoing))
            elif challenge is not None:
                answer, challenge = challenge, None
                outgoing = await flow.asend(answer)
            else:
                return
    except StopAsyncIteration:
        return
    finally:
        await flow.aclose()


@asynccontextmanager
async def _open_sender(settings: McpSettings, resolve: Resolver) -> AsyncIterator[SendRequest]:
    """Open a client for requests of the OAuth flow.

    It connects only to checked addresses, requires TLS if the server's URL does, and does not send
    the server's headers.
    """
    context = await asyncio.get_running_loop().run_in_executor(None, http.make_ssl_context)
    transport = http.CheckedTransport(
        context, http.CheckedNetworkBackend(settings.allow_private, resolve), 4
    )
    agent = f"sshwarma/{version('sshwarma')}"
    async with http.make_client(transport, {}, agent) as web:

        async def send(outgoing: httpx2.Request) -> httpx2.Response:
            check_oauth_url(str(outgoing.url), settings)
            for name, value in (("Accept", "application/json"), ("Accept-Encoding", "identity"),
                                ("User-Agent", agent)):  # fmt: skip
                outgoing.headers.setdefault(name, value)
            try:
                async with asyncio.timeout(OAUTH_REQUEST_TIMEOUT_SECONDS):
                    return await web.send(outgoing, auth=None, follow_redirects=False)
            except TimeoutError:
                host = outgoing.url.host
                raise AuthorizationServerError(
                    f"{host} timed out after {OAUTH_REQUEST_TIMEOUT_SECONDS:.0f} s"
                ) from None

        yield send


async def _fetch_challenge(settings: McpSettings, send: SendRequest) -> AuthChallenge:
    """Request the server without a token and return its challenge."""
    request = _make_ping_request(settings)
    request.headers["Accept"] = "application/json, text/event-stream"
    request.headers["Content-Type"] = "application/json"
    response = await send(request)
    return read_challenge(response) if response.status_code == 401 else AuthChallenge(401)


def _make_ping_request(settings: McpSettings) -> httpx2.Request:
    headers = {"MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}
    body = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'
    return httpx2.Request("POST", settings.url or "", headers=headers, content=body)


def read_challenge(response: httpx2.Response) -> AuthChallenge:
    """Return the challenge of a response: its status and `WWW-Authenticate` header."""
    return AuthChallenge(response.status_code, response.headers.get("WWW-Authenticate", ""))


def _read_error_code(response: httpx2.Response) -> str:
    """Return the error code of a refusal, never the whole response."""
    try:
        body = response.json()
    except ValueError:
        body = None
    code = body.get("error") if isinstance(body, dict) else None
    return (
        shorten_name(strip_invisible(str(code)))
        if isinstance(code, str)
        else f"HTTP {response.status_code}"
    )


def describe_error(error: BaseException) -> str:
    """Return the reason for a failed OAuth request in one line of plain text."""
    if isinstance(error, ValidationError):
        return "a response violates the OAuth protocol"
    if isinstance(error, TimeoutError):
        return "timed out"
    return (
        strip_invisible(str(error)).partition("\n")[0][:MAX_ERROR_CHARACTERS].rstrip(". ")
        or "no reason given"
    )
