"""MCP endpoint: `/mcp` over HTTP with agent tokens, and ssh channels with keys.

Each HTTP request is authenticated by its token before its body is read, and again when it has
arrived. The SDK's session manager serves both protocol eras at one URL; a session belongs to the
token that opened it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from http import HTTPStatus
from typing import Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.runner import serve_dual_era_loop
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from sshwarma.common.limits import (
    HTTP_BODY_TIMEOUT_SECONDS,
    MAX_CLIENT_MESSAGE_BYTES,
    MAX_MCP_SESSIONS,
    MAX_MCP_SESSIONS_PER_AGENT,
    MCP_SESSION_IDLE_SECONDS,
    RATE_WINDOW_SECONDS,
)
from sshwarma.mcp.line_stream import LineStream
from sshwarma.mcp.server.clients import ConnectedAgents, McpConnection
from sshwarma.mcp.server.handlers import McpHandlers
from sshwarma.mcp.server.request_context import CONNECTION_KEY, REFUSED_CODE
from sshwarma.mcp.server.stream import MessageStream
from sshwarma.settings import HttpSettings
from sshwarma.terminal.escape import escape_lines
from sshwarma.tools.call import Tools
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world.bearer import (
    BEARER_HINT,
    INVALID_BEARER,
    SCOPE_AGENT_KEY,
    authenticate_bearer,
)
from sshwarma.world.errors import Forbidden, RateLimited, Unavailable, WorldError
from sshwarma.world.reader import MCP_CLIENT
from sshwarma.world.tokens import REVOKED_REASON, Token

_SDK_DETAILS: Final = ("Validation error", "Parse error")
"""Beginnings of messages of the SDK that contain the details of a Python exception."""

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


class McpEndpoint:
    """MCP server over HTTP and ssh channels.

    It may be created in any thread; use it on the event loop only.
    """

    def __init__(
        self, clients: ConnectedAgents, tools: Tools, http: HttpSettings, line_rate: LineRateLimiter
    ) -> None:
        self._clients = clients
        self._request_rate = LineRateLimiter(
            clients.limits.requests_per_10_seconds, "requests", "then ask again"
        )
        self.handlers = self._protocol(clients, tools, line_rate)
        self._hosts = http.hosts
        self._manager: StreamableHTTPSessionManager
        self._ready = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def _protocol(
        self, clients: ConnectedAgents, tools: Tools, line_rate: LineRateLimiter
    ) -> McpHandlers:
        return McpHandlers(clients, tools, line_rate)

    def _session_manager(self, settings: TransportSecuritySettings) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            self.handlers.server,
            security_settings=settings,
            max_request_body_size=MAX_CLIENT_MESSAGE_BYTES,
            session_idle_timeout=MCP_SESSION_IDLE_SECONDS,
            max_sessions=MAX_MCP_SESSIONS,
        )

    async def start(self) -> None:
        """Start to serve; return when requests can be handled."""
        self.handlers.start()
        self._manager = self._session_manager(make_security_settings(self._hosts))
        self._task = asyncio.get_running_loop().create_task(self._run())
        await self._ready.wait()

    async def stop(self) -> None:
        """Stop serving and close all sessions."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self.handlers.stop()

    async def _run(self) -> None:
        """Run the session manager, which one task must enter and leave."""
        async with self._manager.run():
            self._ready.set()
            await self._stopping.wait()

    async def serve_lines(self, agent_id: str, lines: LineStream) -> None:
        """Serve an agent over an ssh channel until the channel or its access ends.

        Raises:
            Forbidden: if the agent's access ends.
        """
        connection = await self._clients.open_connection(agent_id, None)
        messages = MessageStream(lines, agent_id, self._request_rate)
        server = self.handlers.server
        serve_task = asyncio.get_running_loop().create_task(
            serve_dual_era_loop(
                server,
                messages,
                messages,
                lifespan_state=connection,
                init_options=server.create_initialization_options(),
            )
        )
        end_task = asyncio.get_running_loop().create_task(connection.ended.wait())
        try:
            await asyncio.wait({serve_task, end_task}, return_when=asyncio.FIRST_COMPLETED)
            if not serve_task.done():
                raise Forbidden(connection.reason)
            serve_task.result()
        finally:
            end_task.cancel()
            serve_task.cancel()
            try:
                # Retrieve the error of the cancelled task, or asyncio would report it; `gather`
                # does so even if this coroutine is cancelled.
                await asyncio.gather(serve_task, return_exceptions=True)
            finally:
                connection.close()

    async def serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        try:
            token = await self._find_token(scope)
            if token is None:
                await _send_refusal(send, 401, f"{INVALID_BEARER} {BEARER_HINT}.")
                return
            scope[SCOPE_AGENT_KEY] = token.agent_id
            if scope["method"] == "POST":
                self._request_rate.check(token.agent_id)
            stays = scope["method"] == "POST"  # the end of a stream does not count as activity
            connection = await self._clients.open_connection(token.agent_id, token, stays=stays)
        except RateLimited as busy:
            await _send_refusal(send, 429, busy.text_for(MCP_CLIENT), busy.retry_after_seconds)
            return
        except Unavailable as busy:
            await _send_refusal(send, 429, busy.text_for(MCP_CLIENT))
            return
        except WorldError as refused:
            await _send_refusal(send, 401, refused.text_for(MCP_CLIENT))
            return
        answer = _HttpExchange(connection, receive, send)
        try:
            if (
                _opens_session(scope)
                and connection.client.session_count >= MAX_MCP_SESSIONS_PER_AGENT
            ):
                text = f"You have {MAX_MCP_SESSIONS_PER_AGENT} sessions open, the limit."
                await _send_refusal(send, 429, text)
                return
            if scope["method"] == "POST" and not await self._read_body(scope, answer):
                return
            scope = {**scope, "user": _make_user(token), CONNECTION_KEY: connection}
            await self._manager.handle_request(scope, answer.receive, answer.send)
            await answer.finish()
        finally:
            connection.close()
            if scope["method"] == "DELETE" and answer.status == 200:
                connection.client.forget_tokens({token.id})  # the client closed its session

    async def _read_body(self, scope: Scope, answer: _HttpExchange) -> bool:
        """Read the body of a request; refuse it if that takes too long or its token is revoked.

        Returns whether the SDK may answer it.
        """
        try:
            async with asyncio.timeout(HTTP_BODY_TIMEOUT_SECONDS):
                is_whole = await answer.read_body()
        except TimeoutError:
            text = f"The request body timed out after {HTTP_BODY_TIMEOUT_SECONDS:.0f} s."
            await _send_refusal(answer.send, 408, text)
            return False
        if not is_whole:
            await answer.finish()
            return False
        if await self._find_token(scope) is None:
            await _send_refusal(answer.send, 401, REVOKED_REASON)
            return False
        return True

    async def _find_token(self, scope: Scope) -> Token | None:
        """Return the valid token of a request, or None."""
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        bearer = await authenticate_bearer(self._clients.world, header.decode("latin-1"))
        return None if bearer is None else bearer[1]


class _HttpExchange:
    """ASGI exchange of one request.

    When its connection ends, the SDK receives a disconnect and the client the end of the response.
    """

    def __init__(self, connection: McpConnection, receive: Receive, send: Send) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self.status = 0
        self._is_event_stream = False
        self._is_complete = False
        self._error_start: Message | None = None
        self._error_body = bytearray()
        self._body: deque[Message] = deque()

    async def read_body(self) -> bool:
        """Read the body, which `receive` returns again.

        Returns False if the client disconnects or the connection ends. Reading stops at the limit
        of a message: a longer body is the SDK's to refuse.
        """
        size = 0
        while size <= MAX_CLIENT_MESSAGE_BYTES:
            message = await self._receive_or_end()
            if message["type"] == "http.disconnect":
                return False
            self._body.append(message)
            size += len(message.get("body", b""))
            if not message.get("more_body", False):
                break
        return True

    async def receive(self) -> Message:
        """Return the next message of the client, or a disconnect when the connection ends."""
        return self._body.popleft() if self._body else await self._receive_or_end()

    async def _receive_or_end(self) -> Message:
        loop = asyncio.get_running_loop()
        end_task = loop.create_task(self._connection.ended.wait())
        receive_task = loop.create_task(self._receive_once())
        try:
            await asyncio.wait({receive_task, end_task}, return_when=asyncio.FIRST_COMPLETED)
            return receive_task.result() if receive_task.done() else {"type": "http.disconnect"}
        finally:
            end_task.cancel()
            receive_task.cancel()

    async def _receive_once(self) -> Message:
        return await self._receive()

    async def send(self, message: Message) -> None:
        """Send a message to the client, and record the status of the response.

        An error of the SDK is sent when it is complete, as a JSON-RPC error of one sentence.
        """
        if message["type"] == "http.response.start":
            self.status = message["status"]
            content_type = dict(message.get("headers", ())).get(b"content-type", b"")
            self._is_event_stream = content_type.startswith(b"text/event-stream")
            if self.status >= 400:
                self._error_start = message
                return
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
            if self._error_start is not None:
                self._error_body += message.get("body", b"")
                if self._is_complete:
                    await _send_error(self._send, self._error_start, bytes(self._error_body))
                return
        await self._send(message)

    async def finish(self) -> None:
        """Complete a response that was cut short: its request gets the reason as an error."""
        if self._is_complete or not self._connection.ended.is_set():
            return
        if self.status:
            await self._send({"type": "http.response.body", "body": self._last_event()})
        else:
            await _send_refusal(self.send, 401, self._connection.reason)

    def _last_event(self) -> bytes:
        """Return the event that answers the request of a stream with the reason of its end."""
        request_id = self._connection.request_id
        if request_id is None or not self._is_event_stream:
            return b""
        error = _make_error(request_id, REFUSED_CODE, self._connection.reason)
        return b"event: message\r\ndata: " + error + b"\r\n\r\n"


def make_security_settings(hosts: tuple[str, ...]) -> TransportSecuritySettings:
    """Allow requests by these host names only, against DNS rebinding by other sites."""
    names = (*LOOPBACK_HOSTS, *hosts)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{form}"
            for scheme in ("http", "https")
            for name in names
            for form in (name, f"{name}:*")
        ],
    )


def _opens_session(scope: Scope) -> bool:
    """Return whether a request of the older protocol opens a session."""
    headers = dict(scope["headers"])
    version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    older = not version or version in HANDSHAKE_PROTOCOL_VERSIONS
    return older and b"mcp-session-id" not in headers


def _make_user(token: Token) -> AuthenticatedUser:
    """Return the SDK's user of a token, to whom it binds a session."""
    return AuthenticatedUser(
        AccessToken(
            token=token.id, client_id=token.agent_id, subject=token.id, scopes=[token.scope.value]
        )
    )


async def _send_error(send: Send, start: Message, body: bytes) -> None:
    """Send an error response of the SDK as a JSON-RPC error of one sentence."""
    status = start["status"]
    code, text, request_id = INVALID_REQUEST, body.decode(errors="replace"), None
    try:
        data = json.loads(body)
        code, text, request_id = data["error"]["code"], data["error"]["message"], data.get("id")
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    else:
        if "\n" not in text and not text.startswith(_SDK_DETAILS):
            await send(start)
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
    if text.startswith("Parse error"):
        code, text = PARSE_ERROR, "The request body is not JSON."
    elif text.startswith("Validation error"):
        # The SDK calls it invalid params, but the message itself is malformed.
        code, text = INVALID_REQUEST, "The request body is not a JSON-RPC 2.0 message."
    else:
        sentence = text.partition("\n")[0].strip() or HTTPStatus(status).phrase
        text = f"{sentence.removesuffix('.')}."
    content = _make_error(request_id, code, text)
    other_headers = [
        (name, value)
        for name, value in start.get("headers", ())
        if name.lower() not in (b"content-type", b"content-length")
    ]
    headers = [
        *other_headers,
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": False})


def _make_error(request_id: str | int | None, code: int, text: str) -> bytes:
    """Return a JSON-RPC error; control characters of its text are shown."""
    error: dict[str, object] = {"code": code, "message": escape_lines(text)}
    answer = {"jsonrpc": "2.0", "id": request_id, "error": error}
    return json.dumps(answer, ensure_ascii=False).encode()


async def _send_refusal(
    send: Send, status: int, text: str, retry_after_seconds: int = int(RATE_WINDOW_SECONDS)
) -> None:
    body = _make_error(None, REFUSED_CODE, text)
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="sshwarma", error="invalid_token"'))
    if status == 408:
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    if status == 429:
        headers.append((b"retry-after", str(retry_after_seconds).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
