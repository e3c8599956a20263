"""One login to an MCP server that waits for a person: the page to open, and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from sshwarma.common.limits import SIGN_IN_PAGE_TIMEOUT_SECONDS
from sshwarma.mcp.client.credentials import CredentialStore, StoredCredentials
from sshwarma.settings import McpSettings
from sshwarma.world.errors import Conflict, Unavailable

CALLBACK_PATH: Final = "/oauth/callback"

LOOPBACK_REDIRECT: Final = f"http://127.0.0.1:2280{CALLBACK_PATH}"
"""Where a page comes back to if there is no http port: nothing answers there, but the browser shows
the address, which can be pasted."""


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """What authorization servers are told of us: where their page comes back to, and where a
    document that describes us can be read, if it can."""

    redirect: str = LOOPBACK_REDIRECT
    document: str = ""


@dataclass(frozen=True, slots=True)
class SignInPage:
    """What a person is asked to open, and where it comes back to. `issuer` is who signs them in;
    `scope` what is asked for."""

    url: str
    redirect: str
    issuer: str = ""
    scope: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def state(self) -> str:
        """What the answer must repeat."""
        return parse_qs(urlsplit(self.url).query).get("state", [""])[0]


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """What the page came back with."""

    code: str
    state: str
    issuer: str | None


class PendingSignIn:
    """One sign-in while it is under way."""

    def __init__(self, name: str, ours: ClientMetadata) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.ours = ours
        self.pasted = False  # what it came back with was
        self.task: asyncio.Task[None]
        self._page: asyncio.Future[SignInPage] = loop.create_future()
        self._answer: asyncio.Future[AuthorizationResponse] = loop.create_future()

    @property
    def page(self) -> SignInPage | None:
        """What is to be opened, once that is known."""
        return self._page.result() if self._page.done() else None

    def show(self, page: SignInPage) -> None:
        """Have this page opened."""
        self._page.set_result(page)

    async def returned(self) -> AuthorizationResponse:
        """What the page comes back with.

        Raises:
            Unavailable: if it comes back with a refusal.
        """
        return await self._answer

    async def shown(self) -> SignInPage:
        """The page, as soon as there is one.

        Raises:
            WorldError: if the sign-in ends before.
        """
        waiting: set[asyncio.Future[Any]] = {self._page, self.task}
        await asyncio.wait(
            waiting, timeout=SIGN_IN_PAGE_TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if self._page.done():
            return self._page.result()
        if self.task.done() and not self.task.cancelled():
            self.task.result()
        raise Unavailable(
            f"{self.name} did not say in {SIGN_IN_PAGE_TIMEOUT_SECONDS:.0f} s how to sign in."
        )

    def take(self, query: Mapping[str, str]) -> None:
        """Take what the page came back with, once."""
        if self._answer.done():
            raise Conflict("That sign-in has its answer already.")
        if query.get("error") or not query.get("code"):
            why = query.get("error_description") or query.get("error") or "it brought no code"
            self._answer.set_exception(Unavailable(f"You were not signed in: {_plain(why)}."))
            return
        self._answer.set_result(
            AuthorizationResponse(query["code"], query["state"], query.get("iss"))
        )


SignInFlow: TypeAlias = Callable[[McpSettings, CredentialStore, PendingSignIn], Awaitable[None]]
"""Signs in: asks the servers, has the page shown, and keeps the tokens."""

Revocation: TypeAlias = Callable[[McpSettings, StoredCredentials], Awaitable[None]]
"""Gives the tokens of a login back to the authorization server."""


def _plain(text: str) -> str:
    return " ".join(text.split())[:200].rstrip(".")
