"""MCP server as other packages use it; loads the SDK when a first client comes.

The SDK takes a second to import and 20 MiB, which a server without MCP clients never spends. A
thread imports it; requests wait meanwhile. This module does not import it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog
from starlette.types import Receive, Scope, Send

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.common.limits import MCP_LOAD_TIMEOUT_SECONDS
from sshwarma.common.messages import MCP_STOPPED
from sshwarma.mcp.line_stream import LineStream
from sshwarma.mcp.server.clients import ConnectedAgents
from sshwarma.mcp.server.refusals import send_refusal
from sshwarma.services import Services
from sshwarma.settings import ReloadableSettings
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world.audit import Origin
from sshwarma.world.errors import Unavailable
from sshwarma.world.world import World

if TYPE_CHECKING:
    from sshwarma.mcp.server.endpoint import McpEndpoint

log = structlog.get_logger(__name__)

LOAD_RETRY_SECONDS: Final = 5
"""Seconds after which a client may try again that came before the SDK was loaded."""


class McpServer:
    """Serves the world over MCP; `stop` ends all connections."""

    def __init__(
        self,
        world: World,
        services: Services,
        settings: ReloadableSettings,
        line_rate: LineRateLimiter,
    ) -> None:
        self.clients = ConnectedAgents(world, services, settings)
        self._endpoint_args = (services.tools, line_rate)
        self._endpoint: McpEndpoint | None = None
        self._loading: asyncio.Task[McpEndpoint] | None = None
        self._is_stopped = False

    async def stop(self) -> None:
        """End all connections and stop the endpoint."""
        self._is_stopped = True
        await self.clients.stop()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        if self._endpoint is not None:
            await self._endpoint.stop()

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request (ASGI)."""
        try:
            endpoint = await self._wait_until_loaded()
        except Unavailable as unavailable:
            await send_refusal(send, 503, str(unavailable), LOAD_RETRY_SECONDS)
            return
        await endpoint.serve_http(scope, receive, send)

    async def lines(self, agent_id: str, origin: Origin, lines: LineStream) -> None:
        """Serve an agent over a channel until it ends.

        Raises:
            WorldError: if the agent may not connect.
        """
        await (await self._wait_until_loaded()).serve_lines(agent_id, origin, lines)

    async def _load(self) -> McpEndpoint:
        endpoint = await asyncio.get_running_loop().run_in_executor(None, self._make_endpoint)
        await endpoint.start()
        self._endpoint = endpoint
        log.debug("the MCP server is ready")
        return endpoint

    def _make_endpoint(self) -> McpEndpoint:
        """Create the endpoint; call it in a thread.

        Importing takes seconds, and building the schemas of all tools would block the event loop.
        """
        with serialize_imports():
            from sshwarma.mcp.server.endpoint import McpEndpoint

            return McpEndpoint(self.clients, *self._endpoint_args)

    async def _wait_until_loaded(self) -> McpEndpoint:
        if self._is_stopped:
            raise Unavailable(MCP_STOPPED)
        if self._endpoint is not None:
            return self._endpoint
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())
        try:
            async with asyncio.timeout(MCP_LOAD_TIMEOUT_SECONDS):
                return await asyncio.shield(self._loading)
        except TimeoutError:
            raise Unavailable(
                "The MCP server is still starting.", hint="Try again in a few seconds."
            ) from None
