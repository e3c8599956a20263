"""Connecting to a server with the SDK: transports, negotiation, failures.

Importing this module takes two seconds; the hub does so in a thread, before the first connection.

Both eras of the protocol work: the SDK discovers a server's versions and falls back to the
handshake. A program that exits at discovery is started once more with the handshake alone, and the
hub remembers that.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from sshwarma.common.limits import MAX_SERVER_MESSAGE_BYTES
from sshwarma.common.units import MIB
from sshwarma.mcp._sdk import read_http_messages_with
from sshwarma.mcp.client.address import Resolver, check_url, resolve_host
from sshwarma.mcp.client.credentials import CredentialStore
from sshwarma.mcp.client.environment import expand_text, expand_variables, program_environment
from sshwarma.mcp.client.link import (
    KeyRequired,
    LinkCallbacks,
    LinkLost,
    ProtocolEra,
    SandboxOpener,
)
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.sdk import http
from sshwarma.mcp.client.sdk.bearer import BearerAuth
from sshwarma.mcp.client.sdk.channel_transport import channel_transport
from sshwarma.mcp.client.sdk.deep_messages import HttpMessageReader
from sshwarma.mcp.client.sdk.elicitation_form import ask_user
from sshwarma.mcp.client.sdk.session import McpSession
from sshwarma.mcp.client.sdk.stdio import program_transport, sandbox_transport
from sshwarma.mcp.line_stream import LineStream
from sshwarma.settings import McpSettings

read_http_messages_with(HttpMessageReader())

CLIENT_INFO: Final = types.Implementation(name="sshwarma", version=version("sshwarma"))

# Silence the SDK's logging: it repeats text of untrusted servers, which belongs in their own logs.
for _name in ("client", "mcp.client", "mcp.shared"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class _DialRequest:
    """Parameters of `dial` that do not depend on the era."""

    settings: McpSettings
    folder: Path
    log_buffer: LogBuffer
    callbacks: LinkCallbacks
    resolve: Resolver
    lines: LineStream | None
    credentials: CredentialStore | None
    sandbox: SandboxOpener | None


@dataclass(frozen=True, slots=True)
class _Transport:
    """A transport for the SDK; over HTTP also its sender and its authentication."""

    streams: Any
    sender: http.CheckedTransport | None = None
    bearer: BearerAuth | None = None


class _EndListener:
    """Receives the reason when a server ends.

    Before the greeting, that reason explains why connecting failed.
    """

    def __init__(self, callbacks: LinkCallbacks) -> None:
        self._callbacks = callbacks
        self._greeted = False
        self.reasons: list[str] = []

    def on_end(self, reason: str) -> None:
        """Pass the reason on, or keep it until the greeting."""
        if self._greeted:
            self._callbacks.on_ended(reason)
        else:
            self.reasons.append(reason)

    def on_greeting(self) -> None:
        """Pass on the kept reasons, and from now on every new one at once."""
        self._greeted = True
        for reason in self.reasons:
            self._callbacks.on_ended(reason)


@asynccontextmanager
async def dial(  # noqa: PLR0913, PLR0917 - one for each part of a connection
    settings: McpSettings,
    folder: Path,
    era: ProtocolEra,
    log_buffer: LogBuffer,
    callbacks: LinkCallbacks,
    resolve: Resolver = resolve_host,
    lines: LineStream | None = None,
    credentials: CredentialStore | None = None,
    sandbox: SandboxOpener | None = None,
) -> AsyncIterator[McpSession]:
    """Connect to a server; leaving the context disconnects and ends its program.

    Args:
        settings: How to reach the server.
        folder: Default working directory of a program.
        era: Protocol negotiation.
        log_buffer: Receives the server's stderr and notes.
        callbacks: Callbacks of the connection.
        resolve: Resolver of host names.
        lines: Channel to an offered server.
        credentials: Credentials of a server that supports sign-in.
        sandbox: Starts the program of a server of a toolset.

    Raises:
        KeyRequired: if the server requires a key.
        SignInRequired: if the server requires a sign-in.
        WorldError, MCPError, OSError, ExceptionGroup: if connecting fails.
    """
    request = _DialRequest(
        settings,
        folder=folder,
        log_buffer=log_buffer,
        callbacks=callbacks,
        resolve=resolve,
        lines=lines,
        credentials=credentials,
        sandbox=sandbox,
    )
    async with AsyncExitStack() as stack:
        try:
            client, bearer = await _connect(stack, request, era)
        except Exception as error:
            is_program = settings.url is None and lines is None
            if era == "legacy" or not is_program or not _may_need_handshake(error):
                raise
            log_buffer.append("it exited at version discovery; retrying with the older handshake")
            era = "legacy"
            client, bearer = await _connect(stack, request, era)
        session = McpSession(client, era, callbacks, bearer)
        stack.push_async_callback(session.stop)
        session.start()
        yield session


async def _connect(
    stack: AsyncExitStack, request: _DialRequest, era: ProtocolEra
) -> tuple[Client, BearerAuth | None]:
    """Return an initialized client, entered on the stack, and its authentication.

    Leaves nothing on the stack if it fails.
    """
    callbacks = request.callbacks
    end = _EndListener(callbacks)

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            callbacks.on_listing_changed()

    async def on_elicitation(context: ClientRequestContext, params: Any) -> types.ElicitResult:
        return await ask_user(callbacks, params)

    async with AsyncExitStack() as inner_stack:
        transport = await _open_transport(inner_stack, request, end)
        client = Client(
            transport.streams,
            mode=era,
            client_info=CLIENT_INFO,
            cache=None,
            message_handler=on_message,
            elicitation_callback=on_elicitation,
        )
        try:
            await inner_stack.enter_async_context(client)
        except Exception as error:
            _check_connection_error(transport, end, error)
            raise
        stack.push_async_exit(inner_stack.pop_all())
        end.on_greeting()
        return client, transport.bearer


async def _open_transport(
    stack: AsyncExitStack, request: _DialRequest, end: _EndListener
) -> _Transport:
    """Return the transport of an offered server, a program, or a server with a URL."""
    settings = request.settings
    if request.lines is not None:
        return _Transport(channel_transport(request.lines, request.log_buffer, end.on_end))
    if settings.url is not None:
        return await _open_http_transport(stack, request, settings.url, end)
    command = [expand_text(word, os.environ) for word in settings.command]
    if request.sandbox is not None:
        opening = request.sandbox(command, expand_variables(settings.env, os.environ))
        return _Transport(sandbox_transport(opening, request.log_buffer, end.on_end))
    env = program_environment(settings.env, os.environ)
    memory = settings.memory_mib * MIB
    if settings.cwd is None:
        make_folder = partial(request.folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(make_folder)
    folder = settings.cwd or request.folder
    return _Transport(
        program_transport(
            command,
            env=env,
            cwd=folder,
            memory=memory,
            log_buffer=request.log_buffer,
            ended=end.on_end,
        )
    )


async def _open_http_transport(
    stack: AsyncExitStack, request: _DialRequest, url: str, end: _EndListener
) -> _Transport:
    """Return the transport of a server with a URL; enter its client on the stack."""
    settings, credentials = request.settings, request.credentials
    url = expand_text(url, os.environ)
    check_url(url)
    loop = asyncio.get_running_loop()
    context = await loop.run_in_executor(None, http.make_ssl_context)
    of_toolset = request.sandbox is not None
    backend = http.CheckedNetworkBackend(
        settings.allow_private, request.resolve, of_toolset=of_toolset
    )
    sender = http.CheckedTransport(context, backend, settings.calls_at_once + 8)
    headers = expand_variables(settings.headers, os.environ)
    bearer: BearerAuth | None = None
    if credentials is not None:
        await credentials.load()
        bearer = BearerAuth(settings, credentials, end.on_end, request.resolve)
    web = http.make_client(sender, headers, f"sshwarma/{CLIENT_INFO.version}", bearer)
    streams: Any
    if settings.sse:  # it enters the client itself
        streams = sse_client(
            url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: web
        )
    else:
        await stack.enter_async_context(web)
        streams = streamable_http_client(
            url, http_client=web, max_sse_event_size=MAX_SERVER_MESSAGE_BYTES
        )
    return _Transport(streams, sender, bearer)


def _check_connection_error(transport: _Transport, end: _EndListener, error: Exception) -> None:
    """Raise a clearer error if the reason for a failed connection is known.

    Raises:
        KeyRequired, SignInRequired: if the server rejected our credentials.
        LinkLost: if its program ended, or it responded with an HTTP error.
    """
    if transport.bearer is not None:
        transport.bearer.raise_refusal(error)
    sender = transport.sender
    if sender is not None and sender.refused_status:
        raise KeyRequired(f"it refused the connection (HTTP {sender.refused_status})") from error
    if end.reasons:
        raise LinkLost(end.reasons[0]) from error
    if sender is not None and sender.error_status:
        text = f"it responded with HTTP {sender.error_status}; check the path of the URL"
        raise LinkLost(text) from error


def _may_need_handshake(error: BaseException) -> bool:
    """Return whether the program may have exited at an unknown request."""
    if isinstance(error, BaseExceptionGroup):
        return any(_may_need_handshake(inner) for inner in error.exceptions)
    return isinstance(error, (MCPError, ValidationError, LinkLost))
