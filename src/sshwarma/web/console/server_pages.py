"""The pages of MCP servers: all, and one with its tools, changes and log."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sshwarma.verbs.dispatch import invoke
from sshwarma.web.console.managed_page import find_obstacles, show_managed
from sshwarma.web.console.requests import ConsoleRequests

_VERBS: Final = (
    "mcp add", "mcp remove", "mcp refresh", "mcp enable", "mcp disable", "mcp approve", "mcp log",
    "mcp login", "mcp logout",
)  # fmt: skip

_STATES: Final = {
    "new": "not connected yet",
    "connecting": "connecting",
    "up": "up",
    "degraded": "up, but it answers badly",
    "down": "down",
    "needs-key": "needs a variable or a key",
    "needs-sign-in": "needs a sign-in",
    "stopped": "stopped",
    "disabled": "disabled",
}
"""States for people."""


class ServerPages:
    """The pages of MCP servers."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/servers", page(self._list)),
            Route("/servers/{name}", page(self._show)),
            Route("/servers/{name}/log", page(self._show_log)),
        ]

    async def _list(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        return await show_managed(
            self._requests, request, caller, "servers.html", "MCP servers", states=_STATES,
            listed=await invoke(caller, "mcp list", {}),
            obstacles=await find_obstacles(caller, *_VERBS),
        )  # fmt: skip

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        shown = await invoke(caller, "mcp show", {"name": request.path_params["name"]})
        return await show_managed(
            self._requests, request, caller, "server.html", shown.name, states=_STATES,
            server=shown, obstacles=await find_obstacles(caller, *_VERBS),
        )  # fmt: skip

    async def _show_log(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        log = await invoke(caller, "mcp log", {"name": request.path_params["name"]})
        return await show_managed(
            self._requests, request, caller, "server_log.html", f"Log of {log.name}",
            name=log.name, drawn=await self._requests.draw(caller, log),
        )  # fmt: skip
