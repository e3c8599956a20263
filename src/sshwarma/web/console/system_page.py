"""The page about the server: machine, skills, tools, models, one's browsers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sshwarma.services import services_of
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.views import format_clock
from sshwarma.verbs.web import name_browser
from sshwarma.web.console.managed_page import find_obstacles
from sshwarma.web.console.requests import ConsoleRequests


class SystemPage:
    """The page `/system`."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        return [Route("/system", self._requests.page(self._show))]

    async def _show(self, request: Request) -> Response:
        caller, opened = await self._requests.find_caller(request)
        projects, draw = services_of(caller).projects, self._requests.draw
        listed = await invoke(caller, "web list", {})
        return await self._requests.show_page(
            request, caller, "system.html", title="System",
            environment=await invoke(caller, "env", {}),
            directory=await projects.find_directory(caller.room_id),
            room=(await caller.room()).name,
            skills=(await invoke(caller, "skill list", {})).skills,
            tools=await invoke(caller, "tools info", {}),
            models=await draw(caller, await invoke(caller, "models", {})),
            servers=await draw(caller, await invoke(caller, "mcp list", {})),
            browsers=[
                (one, name_browser(one.browser), format_clock(one.created_at),
                 format_clock(one.last_used_at or one.created_at))
                for one in listed.browsers
            ],
            own_browser=opened.token.id if opened.token is not None else "",
            version=await draw(caller, await invoke(caller, "version", {})),
            obstacles=await find_obstacles(caller, "model add", "mcp add"),
        )  # fmt: skip
