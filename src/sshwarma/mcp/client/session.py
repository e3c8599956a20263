"""Live connection to one server, on top of the SDK.

Importing this module takes two seconds; `hub` does so in a thread, before the first connection.

Both eras of the protocol work: the SDK discovers a server's versions and falls back to the
handshake. A program that exits at discovery is started once more with the handshake alone, and the
hub remembers that.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sshwarma.common.limits import (
    MAX_ELICITATION_FIELDS,
    MAX_LISTING_ENTRIES,
    MAX_LISTING_PAGES,
    MAX_SERVER_MESSAGE_BYTES,
    MAX_SERVER_TEXT_CHARACTERS,
)
from sshwarma.mcp._sdk import accept_tool_listing, request_tool_page
from sshwarma.mcp.client import http
from sshwarma.mcp.client.address import Resolver, check_url, resolve_host
from sshwarma.mcp.client.bearer import BearerAuth
from sshwarma.mcp.client.channel_transport import channel_transport
from sshwarma.mcp.client.credentials import CredentialStore
from sshwarma.mcp.client.environment import expand_variables, program_environment
from sshwarma.mcp.client.line_stream import LineStream
from sshwarma.mcp.client.link import (
    ElicitationField,
    ElicitationRequest,
    KeyRequired,
    LinkCallbacks,
    LinkDoubtful,
    LinkLost,
    ProgressCallback,
    ProtocolEra,
    ServerInfo,
    SignInRequired,
)
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.results import convert_result
from sshwarma.mcp.client.sanitize import (
    RejectedTool,
    SanitizedTool,
    ToolListing,
    sanitize_listing,
    strip_invisible,
)
from sshwarma.mcp.client.stdio import ANSWER_REFUSED_CODE, program_transport
from sshwarma.settings import McpSettings
from sshwarma.tools.call import ToolResult

LISTEN_RETRY_SECONDS: Final = 5.0
MAX_PROGRESS_CHARACTERS: Final = 100
CLIENT_INFO: Final = types.Implementation(name="sshwarma", version=version("sshwarma"))

# Silence the SDK's logging: it repeats text of untrusted servers, which belongs in their own logs.
for _name in ("client", "mcp.client", "mcp.shared"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_current_call: ContextVar[object | None] = ContextVar("calling", default=None)
"""Mark of the current task's call; servers of the newer protocol ask their questions in it."""


@dataclass(frozen=True, slots=True)
class _DialRequest:
    """What a connection needs to know; the parameters of `dial`."""

    settings: McpSettings
    folder: Path
    ring: LogBuffer
    hooks: LinkCallbacks
    resolve: Resolver
    lines: LineStream | None
    credentials: CredentialStore | None


@dataclass(frozen=True, slots=True)
class _Transport:
    """A transport for the SDK, and over HTTP what sends and signs its requests."""

    streams: Any
    sender: http.CheckedTransport | None = None
    bearer: BearerAuth | None = None


class _EndListener:
    """Takes the reason when a server ends: before the greeting, a failure to connect."""

    def __init__(self, hooks: LinkCallbacks) -> None:
        self._hooks = hooks
        self._greeted = False
        self.reasons: list[str] = []

    def on_end(self, reason: str) -> None:
        if self._greeted:
            self._hooks.on_ended(reason)
        else:
            self.reasons.append(reason)

    def on_greeting(self) -> None:
        """Pass reasons on from now, beginning with those that are there."""
        self._greeted = True
        for reason in self.reasons:
            self._hooks.on_ended(reason)


@asynccontextmanager
async def dial(
    settings: McpSettings,
    folder: Path,
    era: ProtocolEra,
    ring: LogBuffer,
    hooks: LinkCallbacks,
    resolve: Resolver = resolve_host,
    lines: LineStream | None = None,
    credentials: CredentialStore | None = None,
) -> AsyncIterator[McpSession]:
    """Connect to a server; leaving the context disconnects and ends its program.

    Args:
        settings: How to reach the server.
        folder: Default working directory of a program.
        era: Protocol negotiation.
        ring: Receives the server's stderr and notes.
        hooks: Callbacks of the connection.
        resolve: Resolver of host names.
        lines: Channel to an offered server.
        credentials: Credentials of a server that supports sign-in.

    Raises:
        KeyRequired: if the server requires a key.
        SignInRequired: if the server requires a sign-in.
        WorldError, MCPError, OSError, ExceptionGroup: if connecting fails.
    """
    request = _DialRequest(
        settings,
        folder=folder,
        ring=ring,
        hooks=hooks,
        resolve=resolve,
        lines=lines,
        credentials=credentials,
    )
    async with AsyncExitStack() as stack:
        try:
            client, bearer = await _connect(stack, request, era)
        except Exception as error:
            once = settings.url is not None or lines is not None
            if era == "legacy" or once or not _may_need_handshake(error):
                raise
            ring.append("it exited at version discovery; retrying with the older handshake")
            era = "legacy"
            client, bearer = await _connect(stack, request, era)
        session = McpSession(client, era, hooks, bearer)
        stack.push_async_callback(session.stop)
        session.start()
        yield session


async def _connect(
    stack: AsyncExitStack, request: _DialRequest, era: ProtocolEra
) -> tuple[Client, BearerAuth | None]:
    """Return an initialized client, entered on the stack, and its authentication.

    Leaves nothing on the stack if it fails.
    """
    hooks = request.hooks
    end = _EndListener(hooks)

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            hooks.on_listing_changed()

    async def asked(context: ClientRequestContext, params: Any) -> types.ElicitResult:
        return await _ask_user(hooks, params)

    async with AsyncExitStack() as mine:
        transport = await _open_transport(mine, request, end)
        client = Client(
            transport.streams,
            mode=era,
            client_info=CLIENT_INFO,
            cache=None,
            message_handler=heard,
            elicitation_callback=asked,
        )
        try:
            await mine.enter_async_context(client)
        except Exception as error:
            _check_connection_error(transport, end, error)
            raise
        stack.push_async_exit(mine.pop_all())
        end.on_greeting()
        return client, transport.bearer


async def _open_transport(
    stack: AsyncExitStack, request: _DialRequest, end: _EndListener
) -> _Transport:
    """The transport of a server that somebody brings along, runs as a program, or has a URL."""
    settings = request.settings
    if request.lines is not None:
        return _Transport(channel_transport(request.lines, request.ring, end.on_end))
    if settings.url is not None:
        return await _open_http_transport(stack, request, settings.url, end)
    env = program_environment(settings.env, os.environ)
    memory = settings.memory_mib * 1024 * 1024
    folder = settings.cwd or request.folder
    return _Transport(
        program_transport(
            settings.command,
            env=env,
            cwd=folder,
            memory=memory,
            ring=request.ring,
            ended=end.on_end,
        )
    )


async def _open_http_transport(
    stack: AsyncExitStack, request: _DialRequest, url: str, end: _EndListener
) -> _Transport:
    """The transport of a server with a URL; its HTTP client is entered on the stack."""
    settings, credentials = request.settings, request.credentials
    check_url(url)
    loop = asyncio.get_running_loop()
    context = await loop.run_in_executor(None, http.make_ssl_context)
    backend = http.CheckedNetworkBackend(settings.allow_private, request.resolve)
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
    """Raise a clearer error if it is known why a server could not be greeted.

    Raises:
        KeyRequired, SignInRequired: if it does not let us in.
        LinkLost: if its program ended, or it answered with an error of HTTP.
    """
    _check_authorized(transport.bearer, error)
    sender = transport.sender
    if sender is not None and sender.refused_status:
        raise KeyRequired(f"it refused the connection (HTTP {sender.refused_status})") from error
    if end.reasons:
        raise LinkLost(end.reasons[0]) from error
    if sender is not None and sender.error_status:
        words = f"it responded with HTTP {sender.error_status}; check the path of the URL"
        raise LinkLost(words) from error


def _check_authorized(bearer: BearerAuth | None, error: Exception) -> None:
    """Raise if a failure was caused by missing or rejected credentials.

    Raises:
        KeyRequired, SignInRequired: if the server rejected them.
        LinkLost: if the authorization server failed.
    """
    if bearer is None:
        return
    if bearer.refusal_reason:
        raise (KeyRequired if bearer.is_machine else SignInRequired)(
            bearer.refusal_reason
        ) from error
    if bearer.outage_reason:
        raise LinkLost(bearer.outage_reason) from error


def _may_need_handshake(error: BaseException) -> bool:
    """Return whether the program may have exited at an unknown request."""
    if isinstance(error, BaseExceptionGroup):
        return any(_may_need_handshake(inner) for inner in error.exceptions)
    return isinstance(error, (MCPError, ValidationError, LinkLost))


class McpSession:
    """Connection to a server; implements `link.ServerLink`."""

    def __init__(
        self,
        client: Client,
        era: ProtocolEra,
        hooks: LinkCallbacks,
        bearer: BearerAuth | None = None,
    ) -> None:
        self._client = client
        self._bearer = bearer
        self._hooks = hooks
        self._modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        info = client.server_info
        self.greeting = ServerInfo(
            client.protocol_version,
            strip_invisible(f"{info.name} {info.version}")[:100] if info else "",
            era,
        )
        self._listen_task: asyncio.Task[None] | None = None
        self._known_tools: dict[str, SanitizedTool] = {}

    def start(self) -> None:
        """Subscribe to changes of the tool listing, if the protocol supports it."""
        if self._modern:
            self._listen_task = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        if self._listen_task is not None:
            self._listen_task.cancel()
            await asyncio.gather(self._listen_task, return_exceptions=True)

    async def tools(self, most: int) -> ToolListing:
        try:
            raw = await _fetch_raw_tools(self._client.session)
        except MCPError as error:
            _check_authorized(self._bearer, error)
            raise
        if self._modern:
            raw = [_check_header_annotations(entry) or entry for entry in raw]
        # Checking hundreds of schemas is slow: do it off the event loop.
        loop = asyncio.get_running_loop()
        listing = await loop.run_in_executor(None, sanitize_listing, raw, most, self._known_tools)
        self._known_tools = {tool.fingerprint: tool for tool in listing.tools}
        _remember_listing(self._client.session, listing)
        return listing

    async def probe(self) -> None:
        session = self._client.session
        if self._modern:
            await session.send_discover(self._client.protocol_version)
        else:
            await session.send_ping()

    async def call(
        self, tool: str, arguments: dict[str, Any], report: ProgressCallback | None, mark: object
    ) -> ToolResult:
        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if report is not None:
                report(_format_progress(progress, total, message))

        was = _current_call.set(mark)
        bearer = self._bearer
        wanted = bearer.scope_refusal_count if bearer is not None else 0
        try:
            answer = await self._client.call_tool(tool, arguments, progress_callback=progressed)
        except MCPError as error:
            said = strip_invisible(error.message)[:MAX_SERVER_TEXT_CHARACTERS]
            if bearer is not None and bearer.refusal_reason:
                raise (KeyRequired if bearer.is_machine else SignInRequired)(
                    bearer.refusal_reason
                ) from error
            if bearer is not None and bearer.scope_refusal_count != wanted:
                return ToolResult(bearer.scope_message, is_error=True)
            if bearer is not None and bearer.outage_reason:
                return ToolResult(
                    f"The tool was not called: {bearer.outage_reason}.", is_error=True
                )
            if error.code == types.CONNECTION_CLOSED:
                lost = error.message == "Connection closed"
                raise (LinkLost if lost else LinkDoubtful)(said) from error
            if error.code == types.INVALID_REQUEST and "session" in said.lower():
                raise LinkLost(said) from error  # the server restarted and lost our session
            if error.code == ANSWER_REFUSED_CODE:
                return ToolResult(said, is_error=True)
            return ToolResult(f"The server refused: {said}", is_error=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            said = f"The server's response violates the MCP protocol: {where}: {first['msg']}."
            return ToolResult(strip_invisible(said)[:MAX_SERVER_TEXT_CHARACTERS], is_error=True)
        except RuntimeError as error:  # its result violates its schema, or it asks without end
            said = strip_invisible(str(error).partition("\n")[0])[:MAX_SERVER_TEXT_CHARACTERS]
            return ToolResult(f"The server's response was rejected: {said}", is_error=True)
        finally:
            _current_call.reset(was)
        return convert_result(answer)

    async def _listen(self) -> None:
        """Follow changes of the listing; after each broken stream, have it read again.

        A new stream does not replay the events that were missed.
        """
        while True:
            with suppress(SubscriptionLost):
                try:
                    async with self._client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self._hooks.on_listing_changed()
                except (MCPError, ListenNotSupportedError):
                    return  # not supported; the listing is read at intervals
            await asyncio.sleep(LISTEN_RETRY_SECONDS)
            self._hooks.on_listing_changed()


async def _fetch_raw_tools(session: ClientSession) -> list[Any]:
    """Return the raw entries of the tool listing, at most MAX_LISTING_ENTRIES."""
    raw: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_LISTING_PAGES):
        answer = await request_tool_page(session, cursor)
        page = answer.get("tools")
        raw += page if isinstance(page, list) else []
        following = answer.get("nextCursor")
        if not isinstance(following, str) or not following or len(raw) >= MAX_LISTING_ENTRIES:
            break
        cursor = following
    return raw[:MAX_LISTING_ENTRIES]


def _check_header_annotations(entry: Any) -> RejectedTool | None:
    """Reject a tool with invalid x-mcp-header annotations, as the protocol requires."""
    schema = entry.get("inputSchema") if isinstance(entry, dict) else None
    why = find_invalid_x_mcp_header(schema) if isinstance(schema, dict) else None
    return (
        RejectedTool(str(entry.get("name")), f"x-mcp-header: {strip_invisible(why)[:120]}")
        if why
        else None
    )


def _remember_listing(session: ClientSession, listing: ToolListing) -> None:
    """Give the SDK the accepted tools: it mirrors headers and checks results by them."""
    tools = [
        types.Tool(
            name=tool.remote, input_schema=tool.input_schema, output_schema=tool.output_schema
        )
        for tool in listing.tools
    ]
    accept_tool_listing(session, tools)


def _format_progress(progress: float, total: float | None, message: str | None) -> str:
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    said = " ".join(strip_invisible(message or "").split())
    return f"{share} {said}".strip()[:MAX_PROGRESS_CHARACTERS]


async def _ask_user(hooks: LinkCallbacks, params: Any) -> types.ElicitResult:
    declined = types.ElicitResult(action="decline")
    message = strip_invisible(params.message)[:MAX_SERVER_TEXT_CHARACTERS]
    if isinstance(params, types.ElicitRequestURLParams):
        parts = urlsplit(params.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return declined
        answer = await hooks.on_elicitation(
            ElicitationRequest(message, url=strip_invisible(params.url)[:1_000]),
            _current_call.get(),
        )
        return declined if answer is None else types.ElicitResult(action="accept")
    fields = _parse_form(params.requested_schema)
    if fields is None:
        return declined
    answer = await hooks.on_elicitation(ElicitationRequest(message, fields), _current_call.get())
    return declined if answer is None else types.ElicitResult(action="accept", content=answer)


def _parse_form(schema: Any) -> tuple[ElicitationField, ...] | None:
    """Return the fields of a form, or None if the form is not supported."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) > MAX_ELICITATION_FIELDS:
        return None
    required = schema.get("required")
    made = []
    for name, said in properties.items():
        if not isinstance(said, dict):
            return None
        kind = str(said.get("type", "string"))
        items = said.get("items") if isinstance(said.get("items"), dict) else None
        if kind == "array":
            kind = "choices"
        if kind not in ("string", "number", "integer", "boolean", "choices"):
            return None
        title = str(said.get("description") or said.get("title") or name)
        limits = {
            key: said[key] for key in _LIMIT_KEYWORDS if isinstance(said.get(key), (int, float))
        }
        made.append(
            ElicitationField(
                name=str(name),
                kind=kind,
                title=strip_invisible(title)[:200],
                required=isinstance(required, list) and name in required,
                default=said.get("default"),
                options=_parse_options(items if kind == "choices" and items else said),
                limits=limits,
            )
        )
    return tuple(made)


_LIMIT_KEYWORDS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def _parse_options(said: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    titled = said.get("oneOf") or said.get("anyOf")
    if isinstance(titled, list):
        return tuple(
            (str(one["const"]), strip_invisible(str(one.get("title", one["const"]))))
            for one in titled
            if isinstance(one, dict) and "const" in one
        )
    values = said.get("enum")
    if not isinstance(values, list):
        return ()
    names = said.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple(
        (str(value), strip_invisible(str(title)))
        for value, title in zip(values, titles, strict=True)
    )
