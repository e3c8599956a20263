"""A sign-in to an MCP server that waits for a person: the page and its redirect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from sshwarma.common.limits import SIGN_IN_PAGE_TIMEOUT_SECONDS
from sshwarma.common.shorten import shorten_text
from sshwarma.mcp.client.credentials import CredentialStore, StoredCredentials
from sshwarma.settings import McpSettings
from sshwarma.world.errors import Conflict, Unavailable

CALLBACK_PATH: Final = "/oauth/callback"

LOOPBACK_REDIRECT: Final = f"http://127.0.0.1:2280{CALLBACK_PATH}"
"""Redirect URI if there is no http port: no program listens there, but the browser shows the URL,
which a person can paste."""


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """Our OAuth client metadata: redirect URI and URL of the client-id document.

    `document` is empty if authorization servers cannot fetch it.
    """

    redirect: str = LOOPBACK_REDIRECT
    document: str = ""


@dataclass(frozen=True, slots=True)
class SignInPage:
    """Sign-in page for a person: its URL, redirect URI, issuer and requested scope."""

    url: str
    redirect: str
    issuer: str = ""
    scope: str = ""

    @property
    def host(self) -> str:
        """Host and port of the page, to show before a person opens it."""
        return urlsplit(self.url).netloc

    @property
    def state(self) -> str:
        """The `state` parameter, which the redirect must repeat."""
        return parse_qs(urlsplit(self.url).query).get("state", [""])[0]


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """Parameters of the redirect."""

    code: str
    state: str
    issuer: str | None


class PendingSignIn:
    """A sign-in in progress."""

    def __init__(self, name: str, metadata: ClientMetadata) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.client_metadata = metadata
        self.pasted = False  # whether the person pasted the redirect URL
        self.task: asyncio.Task[None]
        self._page: asyncio.Future[SignInPage] = loop.create_future()
        self._answer: asyncio.Future[AuthorizationResponse] = loop.create_future()

    @property
    def page(self) -> SignInPage | None:
        """The page to open, once known."""
        return self._page.result() if self._page.done() else None

    def set_page(self, page: SignInPage) -> None:
        """Set the page to open."""
        self._page.set_result(page)

    async def wait_for_redirect(self) -> AuthorizationResponse:
        """Wait for the redirect.

        Raises:
            Unavailable: if the redirect reports an error.
        """
        return await self._answer

    async def wait_for_page(self) -> SignInPage:
        """Wait at most SIGN_IN_PAGE_TIMEOUT_SECONDS for the page.

        Raises:
            WorldError: if the sign-in ends first, or the time is over.
        """
        futures: set[asyncio.Future[Any]] = {self._page, self.task}
        await asyncio.wait(
            futures, timeout=SIGN_IN_PAGE_TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if self._page.done():
            return self._page.result()
        if self.task.done() and not self.task.cancelled():
            self.task.result()
        raise Unavailable(
            f"{self.name} sent no sign-in page: timed out after"
            f" {SIGN_IN_PAGE_TIMEOUT_SECONDS:.0f} s."
        )

    def accept_redirect(self, query: Mapping[str, str]) -> None:
        """Accept the parameters of the redirect, once.

        Raises:
            Conflict: if the sign-in already has them.
        """
        if self._answer.done():
            raise Conflict("This sign-in already has its answer.")
        if query.get("error") or not query.get("code"):
            reason = query.get("error_description") or query.get("error") or "the URL has no code"
            self._answer.set_exception(Unavailable(f"You were not signed in: {_plain(reason)}."))
            return
        self._answer.set_result(
            AuthorizationResponse(query["code"], query["state"], query.get("iss"))
        )


SignInFlow: TypeAlias = Callable[[McpSettings, CredentialStore, PendingSignIn], Awaitable[None]]
"""Signs in: contacts the servers, shows the page and stores the tokens."""

Revocation: TypeAlias = Callable[[McpSettings, StoredCredentials], Awaitable[None]]
"""Revokes the tokens of a sign-in at the authorization server."""


def _plain(text: str) -> str:
    return shorten_text(" ".join(text.split())).rstrip(".")
