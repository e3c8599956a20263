"""The pages of toolsets: what is installed, and one with its tools and files."""

from __future__ import annotations

import json
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.terminal.text import block
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.file_views import FileDownload
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.web.console.frames import render_block
from sshwarma.web.console.managed_page import find_obstacles, show_managed
from sshwarma.web.console.requests import ConsoleRequests, working
from sshwarma.world.errors import Invalid

_VERBS = (
    "toolset import", "toolset enable", "toolset disable", "toolset uninstall", "toolset export",
    "tool enable", "tool disable", "tool set", "plugins reload",
)  # fmt: skip


class ToolsetPages:
    """The pages of toolsets."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/toolsets", page(self._list)),
            Route("/toolsets/{id}", page(self._show)),
            Route("/toolsets/{id}/uninstall", page(self._ask)),
            Route("/toolsets/{id}/export", page(self._export)),
        ]

    async def _list(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        return await show_managed(
            self._requests, request, caller, "toolsets.html", "Toolsets",
            listed=await invoke(caller, "toolset list", {}),
            plugins=(await invoke(caller, "plugins list", {})).plugins,
            obstacles=await find_obstacles(caller, *_VERBS),
        )  # fmt: skip

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        shown = await invoke(caller, "toolset show", {"name": request.path_params["id"]})
        renderers = {
            tool.id: json.dumps({"type": tool.renderer, **(tool.renderer_config or {})})
            for tool in shown.tools
            if tool.renderer
        }
        return await show_managed(
            self._requests, request, caller, "toolset.html", shown.toolset.name, shown=shown,
            obstacles=await find_obstacles(caller, *_VERBS), renderers=renderers,
        )  # fmt: skip

    async def _ask(self, request: Request) -> Response:
        """Show what an uninstall would do, as its verb says it, and ask."""
        caller, _ = await self._requests.find_caller(request)
        name = request.path_params["id"]
        shown, said = await invoke(caller, "toolset show", {"name": name}), render_block(block())
        try:
            await invoke(caller, "toolset uninstall", {"name": name})
        except Invalid as error:
            error.hints = ()  # it names the line that does it; here is a button
            said = render_block(draw_refusal(error))
        return await show_managed(
            self._requests, request, caller, "uninstall.html", f"Uninstall {name}",
            item=shown.toolset, said=said,
        )  # fmt: skip

    async def _export(self, request: Request) -> Response:
        """Send a toolset as a ZIP file."""
        caller, opened = await self._requests.find_caller(request)
        with working(opened):
            caller = replace(caller, wants_bytes=True)
            done: FileDownload = await invoke(
                caller, "toolset export", {"name": request.path_params["id"]}
            )
        return FileResponse(done.blob, media_type="application/zip", filename=done.path)
