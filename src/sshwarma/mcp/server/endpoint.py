"""MCP endpoint: `/mcp` over HTTP with agent tokens, and ssh channels with keys.

Each HTTP request is authenticated by its token before its body is read, and again when it has
arrived. The SDK's session manager serves both protocol eras at one URL; a session belongs to the
token that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.runner import serve_dual_era_loop
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from sshwarma.common.json_guard import JsonTooLarge
from sshwarma.common.limits import (
    HTTP_BODY_TIMEOUT_SECONDS,
    MAX_CLIENT_MESSAGE_BYTES,
    MAX_MCP_SESSIONS,
    MAX_MCP_SESSIONS_PER_AGENT,
    MAX_REQUEST_WAIT_SECONDS,
    MCP_SESSION_IDLE_SECONDS,
)
from sshwarma.common.messages import MCP_STOPPED
from sshwarma.common.refusals import count_refusal
from sshwarma.mcp.line_stream import LineStream
from sshwarma.mcp.server.clients import ConnectedAgents, McpConnection
from sshwarma.mcp.server.handlers import McpHandlers
from sshwarma.mcp.server.http_exchange import HttpExchange
from sshwarma.mcp.server.refusals import send_refusal
from sshwarma.mcp.server.request_context import CONNECTION_KEY
from sshwarma.mcp.server.session_table import SESSION_HEADER, SessionTable
from sshwarma.mcp.server.ssh_channel import MessageStream
from sshwarma.tools.call import Tools
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world.audit import Origin, origin_of_token
from sshwarma.world.bearer import (
    BEARER_HINT,
    INVALID_BEARER,
    SCOPE_AGENT_KEY,
    authenticate_bearer,
)
from sshwarma.world.errors import Forbidden, RateLimited, Unavailable, WorldError
from sshwarma.world.reader import MCP_CLIENT
from sshwarma.world.tokens import REVOKED_REASON, Token

SESSION_END_TIMEOUT_SECONDS: Final = 2.0
"""Seconds that a new session waits for the end of the one whose place it takes."""

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


class McpEndpoint:
    """MCP server over HTTP and ssh channels.

    It may be created in any thread; use it on the event loop only.
    """

    def __init__(self, clients: ConnectedAgents, tools: Tools, line_rate: LineRateLimiter) -> None:
        self._clients = clients
        self._request_rate = LineRateLimiter(
            lambda: clients.settings.limits.requests_per_10_seconds,
            "requests",
            "then ask again",
            counted_as="mcp_requests",
        )
        self.handlers = self._protocol(clients, tools, line_rate)
        self._hosts = clients.settings.http.hosts
        self._security = make_security_settings(self._hosts)
        self._sessions = SessionTable()
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
        self._manager = self._session_manager(self._security)
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

    async def serve_lines(self, agent_id: str, origin: Origin, lines: LineStream) -> None:
        """Serve an agent over an ssh channel until the channel or its access ends.

        Raises:
            Forbidden: if the agent's access ends.
        """
        connection = await self._clients.open_connection(agent_id, None, origin)
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
                await send_refusal(send, 401, f"{INVALID_BEARER} {BEARER_HINT}.")
                return
            scope[SCOPE_AGENT_KEY] = token.agent_id
            stays = scope["method"] == "POST"  # the end of a stream does not count as activity
            origin = origin_of_token(_client_address(scope), token.id)
            connection = await self._clients.open_connection(
                token.agent_id, token, origin, stays=stays
            )
        except Unavailable as busy:
            await send_refusal(send, 429, busy.text_for(MCP_CLIENT))
            return
        except WorldError as refused:
            await send_refusal(send, 401, refused.text_for(MCP_CLIENT))
            return
        answer = HttpExchange(connection, receive, send)
        try:
            if scope["method"] == "POST":
                await self._wait_for_rate(token.agent_id)
            if _opens_session(scope):
                await self._make_room(connection, scope)
            if scope["method"] == "POST" and not await self._read_body(scope, answer):
                return
            user = _make_user(token)
            scope = {**scope, "user": user, CONNECTION_KEY: connection}
            session_id = dict(scope["headers"]).get(SESSION_HEADER)
            if session_id is not None:
                self._sessions.mark_used(token.agent_id, session_id, user)
            await self._answer(scope, answer)
            if answer.session_id is not None and scope["method"] == "POST":
                self._sessions.mark_used(token.agent_id, answer.session_id, user)
            if session_id is not None and answer.status == 404:
                self._sessions.forget(token.agent_id, session_id)
        except RateLimited as busy:
            await send_refusal(send, 429, busy.text_for(MCP_CLIENT), busy.retry_after_seconds)
        finally:
            connection.close()
            if scope["method"] == "DELETE" and answer.status == 200:
                self._sessions.forget(token.agent_id, dict(scope["headers"])[SESSION_HEADER])
                connection.client.forget_tokens({token.id})  # the client closed its session

    async def _wait_for_rate(self, agent_id: str) -> None:
        """Hold a request back while its agent sends too many.

        Raises:
            RateLimited: if there was no room for it in MAX_REQUEST_WAIT_SECONDS.
        """
        try:
            async with asyncio.timeout(MAX_REQUEST_WAIT_SECONDS):
                await self._request_rate.hold_back(agent_id, is_read=False)
        except TimeoutError:
            self._request_rate.check(agent_id)

    async def _answer(self, scope: Scope, answer: HttpExchange) -> None:
        """Let the SDK answer a request, while it does."""
        if self._stopping.is_set():
            await send_refusal(answer.send, 503, MCP_STOPPED)
            return
        self._follow_settings()
        await self._manager.handle_request(scope, answer.receive, answer.send)
        await answer.finish()

    def _follow_settings(self) -> None:
        """Accept the host names in force; all sessions read the same object."""
        hosts = self._clients.settings.http.hosts
        if hosts != self._hosts:
            self._hosts, allowed = hosts, make_security_settings(hosts)
            self._security.allowed_hosts = allowed.allowed_hosts
            self._security.allowed_origins = allowed.allowed_origins

    async def _make_room(self, connection: McpConnection, scope: Scope) -> None:
        """End the least recently used sessions of an agent that has too many."""
        client = connection.client
        while client.session_count >= MAX_MCP_SESSIONS_PER_AGENT:
            count = client.session_count
            ending = {**scope, CONNECTION_KEY: connection}
            if not await self._sessions.end_oldest(
                client.agent_id, ending, self._manager.handle_request
            ):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SESSION_END_TIMEOUT_SECONDS):
                    while client.session_count >= count:
                        await client.wait_for_change()

    async def _read_body(self, scope: Scope, answer: HttpExchange) -> bool:
        """Read a request's body; refuse it if it is too slow or its token is revoked.

        Returns whether the SDK may answer it.
        """
        try:
            async with asyncio.timeout(HTTP_BODY_TIMEOUT_SECONDS):
                is_whole = await answer.read_body()
        except TimeoutError:
            count_refusal("http_body_timeout")
            text = f"The request body timed out after {HTTP_BODY_TIMEOUT_SECONDS:.0f} s."
            await send_refusal(answer.send, 408, text)
            return False
        if not is_whole:
            await answer.finish()
            return False
        if await self._find_token(scope) is None:
            await send_refusal(answer.send, 401, REVOKED_REASON)
            return False
        try:
            answer.check_size()
        except JsonTooLarge as error:
            await send_refusal(answer.send, 413, f"The request body {error}.")
            return False
        return True

    async def _find_token(self, scope: Scope) -> Token | None:
        """Return the valid token of a request, or None."""
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        bearer = await authenticate_bearer(
            self._clients.world, header.decode("latin-1"), "mcp", _client_address(scope)
        )
        return None if bearer is None else bearer[1]


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


def _client_address(scope: Scope) -> str:
    return (scope["client"] or ("",))[0]


def _make_user(token: Token) -> AuthenticatedUser:
    """Return the SDK's user of a token, to whom it binds a session."""
    return AuthenticatedUser(
        AccessToken(
            token=token.id, client_id=token.agent_id, subject=token.id, scopes=[token.scope.value]
        )
    )
