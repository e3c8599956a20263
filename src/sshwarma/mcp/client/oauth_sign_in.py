"""OAuth sign-in to MCP servers.

A person opens a page in their browser. Its redirect reaches us through our http port, or the person
pastes its URL. A sign-in runs in its own task, so that neither a connection nor a command waits for
a person. A server has one at a time; it ends after SIGN_IN_TIMEOUT_SECONDS or when the server does.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import structlog

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.common.limits import MAX_PASTED_ADDRESS_CHARACTERS, SIGN_IN_TIMEOUT_SECONDS
from sshwarma.mcp.client import server_records
from sshwarma.mcp.client.credentials import CredentialStore
from sshwarma.mcp.client.pending_sign_in import (
    ClientMetadata,
    PendingSignIn,
    Revocation,
    SignInFlow,
    SignInPage,
)
from sshwarma.settings import McpSettings
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound, Unavailable, WorldError, too_long_error
from sshwarma.world.events import PersonalNotice
from sshwarma.world.reader import PERSON, next_call
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

CLIENT_DOCUMENT_PATH: Final = "/oauth/client.json"


class OAuthSignIns:
    """Sign-ins of a hub and their stored credentials.

    `folder` holds the credential files; `redial` reconnects a server.
    """

    def __init__(
        self, world: World, folder: Path, redial: Callable[[Thing], Awaitable[None]]
    ) -> None:
        self.client_metadata = ClientMetadata()
        self._world = world
        self._folder = folder
        self._redial = redial
        self._stores: dict[str, CredentialStore] = {}
        self._pending: dict[str, PendingSignIn] = {}

    @property
    def waiting_count(self) -> int:
        """Number of sign-ins that wait for a person."""
        return len(self._pending)

    def credentials(self, server: Thing) -> CredentialStore | None:
        """Return the credentials of a server; None if it has no sign-in."""
        settings = server_records.read_settings(server)
        if settings.url is None or settings.has_key:
            return None
        store = self._stores.get(server.id)
        if store is None:
            store = CredentialStore(self._folder / f"{server.name}.json", settings.url)
            self._stores[server.id] = store
        return store

    async def login(self, caller: Caller, server: Thing) -> SignInPage:
        """Start a sign-in to a server and return its page; cancel one in progress.

        Raises:
            WorldError: if the server cannot be signed in to, with the reason.
        """
        settings = server_records.read_settings(server)
        credentials = self.credentials(server)
        if settings.url is None:
            raise Invalid(f"{server.name} is a local program and has no sign-in.")
        if credentials is None:
            raise Invalid(
                f"{server.name} uses a key in its headers and needs no sign-in.",
                hint="To sign in instead, add it again without that header.",
            )
        if settings.oauth_machine:
            raise Invalid(
                f"{server.name} signs in by itself with its client id and secret.",
                hint=next_call("Retry now with {}.", "mcp refresh", name=server.name),
            )
        if not server.enabled:
            raise Unavailable(
                f"{server.name} is disabled.",
                hint=next_call("{} enables it.", "mcp enable", name=server.name),
            )
        await self.cancel(server)
        await credentials.load()
        flow = await asyncio.get_running_loop().run_in_executor(None, _load_sign_in)
        pending = PendingSignIn(server.name, self.client_metadata)
        work = self._run_sign_in(
            caller,
            server=server,
            settings=settings,
            credentials=credentials,
            flow=flow,
            under_way=pending,
        )
        pending.task = asyncio.create_task(work, name=f"sign-in {server.name}")
        pending.task.add_done_callback(lambda _: self._on_ended(server, pending))
        self._pending[server.id] = pending
        try:
            return await pending.wait_for_page()
        except BaseException:
            pending.task.cancel()
            raise

    async def submit_address(self, server: Thing, address: str, seconds: float) -> bool:
        """Take the pasted redirect URL; return whether the sign-in finished.

        Waits at most `seconds`.

        Raises:
            NotFound: if no sign-in is in progress.
            WorldError: if the URL belongs to another sign-in, or the sign-in fails.
        """
        pending = self._pending.get(server.id)
        if pending is None or pending.page is None:
            raise NotFound(
                f"No sign-in to {server.name} is in progress.",
                hint=next_call("Start one with {}.", "mcp login", name=server.name),
            )
        query = _parse_query(address)
        if not _matches_state(query.get("state", ""), pending.page.state):
            raise Invalid(
                "That URL does not belong to this sign-in.",
                hint="Paste the whole URL that your browser shows last; it begins with"
                f" {pending.page.redirect}",
            )
        pending.pasted = True
        pending.accept_redirect(query)
        done, _ = await asyncio.wait({pending.task}, timeout=seconds)
        if done and pending.task.cancelled():
            raise Unavailable(f"The sign-in to {server.name} was cancelled.")
        if done:
            pending.task.result()
        return bool(done)

    def accept_callback(self, query: Mapping[str, str]) -> str:
        """Take the query of a redirect to our http port; return the server's name.

        Raises:
            NotFound: if no sign-in waits for it.
        """
        for pending in self._pending.values():
            page = pending.page
            if page is not None and _matches_state(query.get("state", ""), page.state):
                pending.accept_redirect(query)
                return pending.name
        raise NotFound("No sign-in is waiting for this page: it finished or was cancelled.")

    async def logout(self, caller: Caller, server: Thing) -> None:
        """Delete a server's tokens and our registration; revoke the tokens if possible.

        Raises:
            NotFound: if nobody is signed in.
        """
        credentials = self.credentials(server)
        stored = await credentials.load() if credentials is not None else None
        if credentials is None or stored is None or not (stored.tokens or stored.client):
            raise NotFound(f"Nobody is signed in to {server.name}.")
        await self.cancel(server)
        revoke = await asyncio.get_running_loop().run_in_executor(None, _load_revoke)
        settings = server_records.read_settings(server)
        async with credentials.lock:
            # Delete before revoking: deletion must not depend on another server.
            await credentials.delete()
        await revoke(settings, stored)
        await caller.change(lambda _: None, notice=f"signed out of the MCP server {server.name}")
        await self._redial(server)

    async def forget(self, server: Thing) -> None:
        """Delete all credentials of a removed server."""
        await self.cancel(server)
        credentials = self.credentials(server)
        if credentials is not None:
            await credentials.delete()
        self._stores.pop(server.id, None)

    async def cancel(self, server: Thing) -> None:
        """Cancel the sign-in to a server, if one is in progress."""
        pending = self._pending.pop(server.id, None)
        if pending is not None:
            pending.task.cancel()
            await asyncio.gather(pending.task, return_exceptions=True)

    async def close(self) -> None:
        """Cancel all sign-ins in progress."""
        tasks = [pending.task for pending in self._pending.values()]
        self._pending.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def describe_status(self, server: Thing) -> str:
        """Describe the state of a server's sign-in; empty if the server has none."""
        credentials = self._stores.get(server.id)
        if credentials is None:
            return ""
        pending = self._pending.get(server.id)
        if pending is not None and pending.page is not None:
            return f"in progress at {pending.page.host}"
        if credentials.wanted_scope:
            return f"a tool needs more scopes ({credentials.wanted_scope})"
        if not credentials.token:
            return credentials.stored.ended
        where = urlsplit(str((credentials.stored.issuer or {}).get("issuer", ""))).netloc
        renews = "; renews automatically" if credentials.has_refresh_token else ""
        return f"signed in{f' through {where}' if where else ''}{renews}"

    def notify_owners(self, name: str, reason: str) -> None:
        """Notify connected owners that a server requires a sign-in."""
        for agent in self._world.agents:
            if agent.role == "owner" and agent.kind == "person":
                login = PERSON.name_call("mcp login", name=name)
                self._notify(agent.id, name, f"{reason}: {login}")

    async def _run_sign_in(
        self,
        caller: Caller,
        server: Thing,
        settings: McpSettings,
        credentials: CredentialStore,
        flow: SignInFlow,
        under_way: PendingSignIn,
    ) -> None:
        try:
            async with asyncio.timeout(SIGN_IN_TIMEOUT_SECONDS):
                await flow(settings, credentials, under_way)
        except TimeoutError:
            text = f"The sign-in timed out after {SIGN_IN_TIMEOUT_SECONDS / 60:.0f} minutes."
            self._notify(caller.agent.id, server.name, text)
            raise Unavailable(text) from None
        except WorldError as error:
            if under_way.page is not None and not under_way.pasted:
                self._notify(caller.agent.id, server.name, str(error))
            raise
        await _redact_caller(caller, server).change(
            lambda _: None, notice=f"signed in to the MCP server {server.name}"
        )
        await self._redial(server)
        if not under_way.pasted:  # the result of a paste says so itself
            self._notify(caller.agent.id, server.name, "You are signed in.")

    def _on_ended(self, server: Thing, under_way: PendingSignIn) -> None:
        if self._pending.get(server.id) is under_way:
            del self._pending[server.id]
        task = under_way.task
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, WorldError):
            log.error("a sign-in failed", server=server.name, exc_info=error)

    def _notify(self, agent_id: str, name: str, text: str) -> None:
        self._world.bus.publish(PersonalNotice(agent_id, name, text, ""))


def _load_sign_in() -> SignInFlow:
    """Import the SDK; call it in a thread, because this takes seconds."""
    with serialize_imports():
        from sshwarma.mcp.client.sdk.oauth import sign_in
    return sign_in


def _load_revoke() -> Revocation:
    """Import the SDK; call it in a thread, as `_load_sign_in`."""
    with serialize_imports():
        from sshwarma.mcp.client.sdk.oauth import revoke
    return revoke


def _redact_caller(caller: Caller, server: Thing) -> Caller:
    """Return the caller with a loggable line: the typed one may hold a code."""
    return caller.with_verb(caller.verb, f"/mcp login {server.name}")


def _parse_query(address: str) -> dict[str, str]:
    """Parse the parameters of a URL, or of its query alone."""
    text = address.strip().strip("'\"<>")
    if len(text) > MAX_PASTED_ADDRESS_CHARACTERS:
        raise too_long_error("address", len(text), MAX_PASTED_ADDRESS_CHARACTERS)
    text = "".join(text.split())  # a terminal may have wrapped it
    query = text.partition("?")[2].partition("#")[0] or text
    return {name: values[0] for name, values in parse_qs(query).items()}


def _matches_state(received: str, expected: str) -> bool:
    return bool(expected) and secrets.compare_digest(received.encode(), expected.encode())
