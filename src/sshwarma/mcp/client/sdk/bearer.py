"""Bearer authentication of a connection: adds the access token and renews it.

The SDK's own provider holds a lock until a response begins: one slow call would block every other
call and the probes of its connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Final

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from typing_extensions import override

from sshwarma.common.limits import OAUTH_REQUEST_TIMEOUT_SECONDS
from sshwarma.common.shorten import shorten_text
from sshwarma.mcp.client.address import Resolver, resolve_host
from sshwarma.mcp.client.credentials import CredentialStore
from sshwarma.mcp.client.link import KeyRequired, LinkLost, SignInRequired
from sshwarma.mcp.client.sanitize import strip_invisible
from sshwarma.mcp.client.sdk.oauth import (
    AuthorizationServerError,
    SignInEnded,
    describe_error,
    read_challenge,
    renew_tokens,
)
from sshwarma.settings import McpSettings

RENEW_EARLY_SECONDS: Final = 30.0
"""Seconds before its expiry at which a token is renewed."""

RENEW_RETRY_SECONDS: Final = 5.0
"""Seconds before a failing authorization server is asked again."""


class BearerAuth(httpx2.Auth):
    """Adds the access token to requests to the server's own origin, and to no others.

    Renews the token when it has expired or the server rejects it.

    Attributes:
        refusal_reason: Why no token can be obtained; empty while one can. `lost` receives it.
        outage_reason: Why no token can be obtained at the moment; empty if one can.
        scope_refusal_count: Number of responses that asked for more scopes.
    """

    def __init__(
        self,
        settings: McpSettings,
        credentials: CredentialStore,
        lost: Callable[[str], None],
        resolve: Resolver = resolve_host,
    ) -> None:
        self.refusal_reason = ""
        self.outage_reason = ""
        self.scope_refusal_count = 0
        self._settings = settings
        self._credentials = credentials
        self._on_lost = lost
        self._resolve = resolve
        self._renewal_task: asyncio.Task[None] | None = None
        self._retry_at = 0.0

    @override
    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        credentials = self._credentials
        if _url_origin(str(request.url)) != _url_origin(self._settings.url or ""):
            yield request
            return
        if credentials.token and credentials.is_expired(RENEW_EARLY_SECONDS):
            await self._renew_once(credentials.token)
        token = self._sign(request)
        response = yield request
        if response.status_code == 401:
            credentials.challenge = read_challenge(response)
            if await self._renew_once(token):
                self._sign(request)
                response = yield request
        if response.status_code != 401:
            self.outage_reason = ""  # the token works
        elif not self.outage_reason:
            self._mark_refused()
        if _is_insufficient_scope(response):
            credentials.challenge = read_challenge(response)
            credentials.wanted_scope = (
                shorten_text(strip_invisible(extract_scope_from_www_auth(response) or "")) or "more"
            )
            self.scope_refusal_count += 1

    @property
    def is_machine(self) -> bool:
        """Whether the server signs in by itself, without a person."""
        return self._settings.oauth_machine

    @property
    def scope_message(self) -> str:
        """Message for a call that was refused for missing scopes."""
        name = self._settings.name
        return (
            f"The server requires more scopes for this call ({self._credentials.wanted_scope})."
            f" An owner can grant them: sign in to {name} again."
        )

    def raise_refusal(self, cause: Exception) -> None:
        """Raise if credentials (missing, rejected) or an outage explain a failed request.

        Raises:
            KeyRequired, SignInRequired: if the server rejected the credentials.
            LinkLost: if the authorization server failed.
        """
        if self.refusal_reason:
            error_type = KeyRequired if self.is_machine else SignInRequired
            raise error_type(self.refusal_reason) from cause
        if self.outage_reason:
            raise LinkLost(self.outage_reason) from cause

    def _sign(self, request: httpx2.Request) -> str:
        token = self._credentials.token
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return token

    def _mark_refused(self) -> None:
        if not self.refusal_reason:
            end_reason = self._credentials.stored.ended
            if self.is_machine:
                self.refusal_reason = (
                    f"its authorization server issued no token: {end_reason or 'no reason'}"
                )
            else:
                self.refusal_reason = (
                    f"its sign-in expired ({end_reason})" if end_reason else "it requires a sign-in"
                )
            self._on_lost(self.refusal_reason)

    async def _renew_once(self, token: str) -> bool:
        """Renew the token unless that has happened; return whether the token changed."""
        if self._credentials.token == token:
            if self._renewal_task is None or self._renewal_task.done():
                self._renewal_task = asyncio.create_task(self._renew(token))
            # Shielded: cancelling one call must not cancel the renewal that all calls wait for,
            # because a new token invalidates the old one.
            await asyncio.shield(self._renewal_task)
        return self._credentials.token not in ("", token)

    async def _renew(self, token: str) -> None:
        credentials = self._credentials
        async with credentials.lock:
            can_renew = credentials.has_refresh_token or self._settings.oauth_machine
            if credentials.token != token or not can_renew or time.monotonic() < self._retry_at:
                return
            try:
                async with asyncio.timeout(2 * OAUTH_REQUEST_TIMEOUT_SECONDS):
                    await renew_tokens(self._settings, credentials, self._resolve)
                self.outage_reason = ""
            except SignInEnded as ended:
                self.outage_reason = ""
                stored = credentials.stored
                await credentials.store(
                    replace(stored, tokens=None, expires_at=None, ended=str(ended))
                )
            except (AuthorizationServerError, TimeoutError) as error:
                self.outage_reason = f"its authorization server failed: {describe_error(error)}"
                self._retry_at = time.monotonic() + RENEW_RETRY_SECONDS


def _is_insufficient_scope(response: httpx2.Response) -> bool:
    error = extract_field_from_www_auth(response, "error")
    return response.status_code == 403 and error == "insufficient_scope"


def _url_origin(url: str) -> tuple[str, str, int | None]:
    parts = httpx2.URL(url)
    return parts.scheme, parts.host, parts.port
