"""The panel that shows a room: who and what is in it, and where one can go."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sshwarma.verbs.dispatch import invoke
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.web.console.room_page import RoomPages


class HerePanel:
    """The panel `here`."""

    def __init__(self, requests: ConsoleRequests, rooms: RoomPages) -> None:
        self._requests = requests
        self._rooms = rooms

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        return [Route("/room/{room}/here", self._requests.page(self._show))]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        seen = await self._requests.draw(caller, await invoke(caller, "look", {}))
        room = await caller.room()
        html = self._requests.frames.render(
            "here.html", room=room, seen=seen, exits=await caller.visible_exits(room)
        )
        return await self._rooms.show_panel(request, caller, "here", html)
