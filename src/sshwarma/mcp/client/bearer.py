"""What signs the requests of a connection: the token of its server, renewed when it is over.

The SDK's own provider could do that, but it holds a lock until an answer begins: one slow call
would hold up every other of its connection, and the probes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Final

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from sshwarma.common.limits import OAUTH_REQUEST_TIMEOUT_SECONDS
from sshwarma.mcp.client.address import Resolver, resolve_host
from sshwarma.mcp.client.credentials import CredentialStore
from sshwarma.mcp.client.oauth import (
    AuthorizationServerError,
    SignInEnded,
    describe_error,
    read_challenge,
    renew_tokens,
)
from sshwarma.mcp.client.sanitize import strip_invisible
from sshwarma.settings import McpSettings

RENEW_EARLY_SECONDS: Final = 30.0
"""A token is renewed so long before it is over."""

RENEW_RETRY_SECONDS: Final = 5.0
"""An authorization server in trouble is left alone for so long."""


class BearerAuth(httpx2.Auth):
    """Adds the token to what a connection sends to its server, and to nothing else; has it renewed
    when it is over or refused. `refused` says why no token can be had, once that is so, and `lost`
    is told; `trouble` says why one cannot be had now. `wants` counts refusals for lack of rights.
    """

    def __init__(
        self,
        settings: McpSettings,
        credentials: CredentialStore,
        lost: Callable[[str], None],
        resolve: Resolver = resolve_host,
    ) -> None:
        self.refused = ""
        self.trouble = ""
        self.wants = 0
        self._settings = settings
        self._credentials = credentials
        self._on_lost = lost
        self._resolve = resolve
        self._renewal_task: asyncio.Task[None] | None = None
        self._retry_at = 0.0

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        credentials = self._credentials
        if _url_origin(str(request.url)) != _url_origin(self._settings.url or ""):
            yield request
            return
        if credentials.token and credentials.expired(RENEW_EARLY_SECONDS):
            await self._renew_once(credentials.token)
        token = self._sign(request)
        response = yield request
        if response.status_code == 401:
            credentials.challenge = read_challenge(response)
            if await self._renew_once(token):
                self._sign(request)
                response = yield request
        if response.status_code != 401:
            self.trouble = ""  # whatever it was, it kept nobody out
        elif not self.trouble:
            self._mark_refused()
        if _is_insufficient_scope(response):
            credentials.challenge = read_challenge(response)
            credentials.wanted = (
                strip_invisible(extract_scope_from_www_auth(response) or "")[:100] or "more"
            )
            self.wants += 1

    @property
    def machine(self) -> bool:
        """Whether no person can help."""
        return self._settings.oauth_machine

    @property
    def lacking(self) -> str:
        """What to say of a refusal for lack of rights."""
        name = self._settings.name
        return (
            f"The server wants more rights for that ({self._credentials.wanted}): an owner gives"
            f" them with /mcp login {name}."
        )

    def _sign(self, request: httpx2.Request) -> str:
        token = self._credentials.token
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return token

    def _mark_refused(self) -> None:
        if not self.refused:
            ended = self._credentials.kept.ended
            if self.machine:
                self.refused = f"its authorization server refuses us: {ended or 'no token'}"
            else:
                said = f"its sign-in has ended ({ended})" if ended else "it wants a sign-in"
                self.refused = f"{said}: /mcp login {self._settings.name}"
            self._on_lost(self.refused)

    async def _renew_once(self, token: str) -> bool:
        """Whether there is another token now than this one."""
        if self._credentials.token == token:
            if self._renewal_task is None or self._renewal_task.done():
                self._renewal_task = asyncio.create_task(self._renew(token))
            # A call that is given up must not take along what is being answered to all: the token
            # before is worth nothing once a new one is made.
            await asyncio.shield(self._renewal_task)
        return self._credentials.token not in ("", token)

    async def _renew(self, token: str) -> None:
        credentials = self._credentials
        async with credentials.lock:
            able = credentials.renews or self._settings.oauth_machine
            if credentials.token != token or not able or time.monotonic() < self._retry_at:
                return
            try:
                async with asyncio.timeout(2 * OAUTH_REQUEST_TIMEOUT_SECONDS):
                    await renew_tokens(self._settings, credentials, self._resolve)
                self.trouble = ""
            except SignInEnded as ended:
                self.trouble = ""
                kept = credentials.kept
                await credentials.store(
                    replace(kept, tokens=None, expires_at=None, ended=str(ended))
                )
            except (AuthorizationServerError, TimeoutError) as error:
                self.trouble = f"its authorization server is in trouble: {describe_error(error)}"
                self._retry_at = time.monotonic() + RENEW_RETRY_SECONDS


def _is_insufficient_scope(response: httpx2.Response) -> bool:
    error = extract_field_from_www_auth(response, "error")
    return response.status_code == 403 and error == "insufficient_scope"


def _url_origin(url: str) -> tuple[str, str, int | None]:
    parts = httpx2.URL(url)
    return parts.scheme, parts.host, parts.port
