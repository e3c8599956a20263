"""OAuth 2.1 as the client, by way of the SDK, which is imported with this module.

The SDK's provider knows the steps: where a server's authorization server is, how we register there,
PKCE, state, `iss`. It is driven here by hand, one request at a time, and every request goes through
the transport that checks addresses: all of these URLs are told by strangers."""

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

from sshwarma.mcp.client import http
from sshwarma.mcp.client.address import Resolve, resolve
from sshwarma.mcp.client.credentials import Challenge, Credentials, Kept
from sshwarma.mcp.client.oauth_login import SignIn
from sshwarma.mcp.client.oauth_provider import (
    Machine,
    Provider,
    check_safe,
    registered,
    response_of,
)
from sshwarma.mcp.client.sanitize import clean
from sshwarma.settings import McpSettings
from sshwarma.world.errors import Unavailable, WorldError

REQUEST_SECONDS: Final = 20.0
"""Longest that one question to an authorization server may take."""

SAID_CHARACTERS: Final = 200

PASSING: Final = ("server_error", "slow_down", "temporarily_unavailable")
"""Errors that an authorization server may get over."""

Send: TypeAlias = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class Ended(Exception):
    """The sign-in is no longer good: the authorization server says so."""


class Trouble(Exception):
    """The authorization server does not do its work now."""


async def sign_in(
    settings: McpSettings,
    credentials: Credentials,
    under_way: SignIn,
    resolve: Resolve = resolve,
) -> None:
    """Sign a person in to a server, and keep the tokens.

    Raises:
        WorldError: if it fails, saying why.
    """
    provider = Provider(settings, credentials, under_way)
    request = _request(settings)
    async with _sending(settings, resolve) as send:
        try:
            challenge = credentials.challenge or await _challenge(settings, send)
            await _drive(provider, request, response_of(challenge, request), send)
        except (OAuthFlowError, ValidationError, Trouble, httpx2.HTTPError, OSError) as error:
            if "invalid_client" in str(error):  # our registration is known there no more
                await credentials.store(replace(credentials.kept, client=None))
            why = _no_way(provider, error) or in_words(error)
            raise Unavailable(f"The sign-in to {settings.name} failed: {why}.") from error
    credentials.challenge, credentials.wanted = None, ""


def _no_way(provider: Provider, error: Exception) -> str:
    """What to say if we could not register, because nobody registers there by themselves."""
    metadata = provider.context.oauth_metadata
    if not isinstance(error, OAuthRegistrationError):
        return ""
    if metadata is None:
        return "it tells of no way to sign in; if it wants a key, add it with --header"
    if metadata.registration_endpoint is None:
        return (
            f"{urlsplit(str(metadata.issuer)).netloc} wants clients to be registered by hand; "
            "/help sign-in tells how to add it then"
        )
    return ""


async def renew(
    settings: McpSettings, credentials: Credentials, resolve: Resolve = resolve
) -> None:
    """Get a new access token by the refresh token, or as the client itself.

    Raises:
        Ended: if it is refused.
        Trouble: if the authorization server cannot be asked now.
    """
    kept = credentials.kept
    request, answer = _request(settings), None
    provider: OAuthClientProvider
    if settings.oauth_machine:
        provider = Machine(settings, credentials)
        challenge = credentials.challenge or Challenge(401)
        answer = response_of(challenge, request)
    else:
        provider = Provider(settings, credentials, None)
        if kept.issuer is not None:
            metadata = OAuthMetadata.model_validate(kept.issuer)
            if settings.oauth_issuer and not issuers_match(
                str(metadata.issuer), settings.oauth_issuer
            ):
                raise Ended("it is signed in to by way of another authorization server now")
            provider.context.oauth_metadata = metadata
        if kept.resource is not None:
            prm = ProtectedResourceMetadata.model_validate(kept.resource)
            provider.context.protected_resource_metadata = prm
        provider.context.token_expiry_time = 1.0  # long ago: it is to be renewed
    refused: list[str] = []
    async with _sending(settings, resolve) as send:

        async def judged(outgoing: httpx2.Request) -> httpx2.Response:
            response = await send(outgoing)
            if outgoing.method == "POST" and response.status_code not in (200, 201, 307, 308):
                why = _error_of(response)
                if response.status_code not in (400, 401) or why in PASSING:
                    raise Trouble(f"it answers {why}")
                refused.append(why)
            return response

        try:
            await _drive(provider, request, answer, judged)
        except Ended as ended:
            raise Ended(refused[0] if refused else str(ended)) from ended
        except (OAuthFlowError, ValidationError) as error:
            raise Ended(refused[0] if refused else in_words(error)) from error
        except (httpx2.HTTPError, WorldError, OSError) as error:
            raise Trouble(in_words(error)) from error
    if refused or "Authorization" not in request.headers:
        raise Ended(refused[0] if refused else "its answer is none by the protocol")


async def revoke(settings: McpSettings, kept: Kept, resolve: Resolve = resolve) -> None:
    """Give tokens back, where the authorization server takes them; what comes of it is its own
    matter."""
    tokens, endpoint = kept.tokens or {}, (kept.issuer or {}).get("revocation_endpoint")
    token = tokens.get("refresh_token") or tokens.get("access_token")
    if not endpoint or not token or kept.client is None:
        return
    try:
        metadata = OAuthClientMetadata(redirect_uris=None)
        context = OAuthContext(kept.url, metadata, _Nothing(), None, None)
        context.client_info = (
            registered(settings, None)
            if settings.oauth_client_id
            else OAuthClientInformationFull.model_validate(kept.client)
        )
        data = {"token": str(token), "client_id": context.client_info.client_id}
        data, headers = context.prepare_token_auth(data, {})
        async with _sending(settings, resolve) as send:
            await send(httpx2.Request("POST", str(endpoint), data=data, headers=headers))
    except (OAuthFlowError, ValidationError, httpx2.HTTPError, Trouble, WorldError, OSError):
        return


class _Nothing:
    """A storage for who has nothing to remember."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Not kept."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Not kept."""


async def _drive(
    provider: OAuthClientProvider,
    request: httpx2.Request,
    challenge: httpx2.Response | None,
    send: Send,
) -> None:
    """Go through the provider's steps until it has signed `request`, which is not sent: that it is
    refused is told by `challenge`."""
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
async def _sending(settings: McpSettings, resolve: Resolve) -> AsyncIterator[Send]:
    """A way to send what belongs to signing in: to addresses that were checked, never in plain
    text where the server itself is spoken to with TLS, and without its headers."""
    context = await asyncio.get_running_loop().run_in_executor(None, http.ssl_context)
    transport = http.Transport(context, http.Backend(settings.allow_private, resolve), 4)
    agent = f"sshwarma/{version('sshwarma')}"
    async with http.client(transport, {}, agent) as web:

        async def send(outgoing: httpx2.Request) -> httpx2.Response:
            check_safe(str(outgoing.url), settings)
            for name, value in (("Accept", "application/json"), ("Accept-Encoding", "identity"),
                                ("User-Agent", agent)):  # fmt: skip
                outgoing.headers.setdefault(name, value)
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    return await web.send(outgoing, auth=None, follow_redirects=False)
            except TimeoutError:
                host = outgoing.url.host
                raise Trouble(f"{host} did not answer in {REQUEST_SECONDS:.0f} s") from None

        yield send


async def _challenge(settings: McpSettings, send: Send) -> Challenge:
    """How the server refuses whoever comes without a token."""
    request = _request(settings)
    request.headers["Accept"] = "application/json, text/event-stream"
    request.headers["Content-Type"] = "application/json"
    response = await send(request)
    return challenge_of(response) if response.status_code == 401 else Challenge(401)


def _request(settings: McpSettings) -> httpx2.Request:
    headers = {"MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}
    body = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'
    return httpx2.Request("POST", settings.url or "", headers=headers, content=body)


def challenge_of(response: httpx2.Response) -> Challenge:
    return Challenge(response.status_code, response.headers.get("WWW-Authenticate", ""))


def _error_of(response: httpx2.Response) -> str:
    """What an authorization server says of a refusal: its code for it, never its whole answer."""
    try:
        said = response.json()
    except ValueError:
        said = None
    code = said.get("error") if isinstance(said, dict) else None
    return clean(str(code))[:60] if isinstance(code, str) else f"HTTP {response.status_code}"


def in_words(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return "an answer is none by the protocol"
    if isinstance(error, TimeoutError):
        return "it took too long"
    return clean(str(error)).partition("\n")[0][:SAID_CHARACTERS].rstrip(". ") or "no reason given"
