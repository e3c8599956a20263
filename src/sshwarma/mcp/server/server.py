"""The MCP door as the rest of the program holds it.

The SDK takes seconds to import, so it is imported in a thread once the other doors are open; who
comes earlier waits. Nothing here needs it.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol, TypeAlias

import structlog

from sshwarma.common.lazy_import import serialize_imports
from sshwarma.mcp.client.line_stream import Lines
from sshwarma.mcp.server.clients import Guests
from sshwarma.settings import HttpSettings, LimitSettings
from sshwarma.tools.call import Tools
from sshwarma.verbs.dispatch import Pace
from sshwarma.world.errors import Unavailable
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

LOAD_SECONDS: Final = 60.0
"""Somebody who comes before everything is loaded waits this long at most."""

LINE_BYTES: Final = 4 * 1024 * 1024
"""The longest message, over HTTP and over a channel."""

Asgi: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Asgi]]
Send: TypeAlias = Callable[[Asgi], Awaitable[None]]


class Serving(Protocol):
    """What is loaded later: `sshwarma.mcp.server.endpoint.Serving`."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def http(self, scope: Asgi, receive: Receive, send: Send) -> None: ...

    async def lines(self, agent_id: str, lines: Lines) -> None: ...


class McpDoor:
    """Serves the world over MCP. `start` when the world is open; `stop` ends whoever is here."""

    def __init__(
        self, world: World, tools: Tools, limits: LimitSettings, http: HttpSettings, pace: Pace
    ) -> None:
        self.guests = Guests(world, limits)
        self._made_of = (tools, http, pace)
        self._serving: Serving | None = None
        self._loading: asyncio.Task[Serving] | None = None

    def start(self) -> None:
        """Begin to load; returns at once."""
        self._loading = asyncio.get_running_loop().create_task(self._load())

    async def stop(self) -> None:
        await self.guests.stop()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        if self._serving is not None:
            await self._serving.stop()

    async def http(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """One HTTP request, as ASGI has it."""
        try:
            serving = await self._loaded()
        except Unavailable as unavailable:
            headers = [(b"content-type", b"text/plain"), (b"retry-after", b"5")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": str(unavailable).encode()})
            return
        await serving.http(scope, receive, send)

    async def lines(self, agent_id: str, lines: Lines) -> None:
        """Serve an agent over a channel until it ends.

        Raises:
            WorldError: if the agent may not come in.
        """
        await (await self._loaded()).lines(agent_id, lines)

    async def _load(self) -> Serving:
        serving = await asyncio.get_running_loop().run_in_executor(None, self._make)
        await serving.start()
        self._serving = serving
        log.debug("MCP is served")
        return serving

    def _make(self) -> Serving:
        """In a thread: importing takes seconds, and composing the schemas of all tools longer than
        the loop may stand still."""
        with serialize_imports():
            module = importlib.import_module("sshwarma.mcp.server.endpoint")
            serving: Serving = module.Serving(self.guests, *self._made_of)
        return serving

    async def _loaded(self) -> Serving:
        if self._serving is not None:
            return self._serving
        if self._loading is None:
            raise Unavailable("MCP is not served here.")
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                return await asyncio.shield(self._loading)
        except TimeoutError:
            raise Unavailable("The server is still starting.", hint="Try again soon.") from None
