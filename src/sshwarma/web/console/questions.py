"""Calls that wait for an approval, as cards with buttons."""

from __future__ import annotations

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.tools.written_arguments import write_arguments
from sshwarma.verbs.dispatch import invoke
from sshwarma.web.console.frames import room_path
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.world.caller import Caller


class Questions:
    """The cards of a room, and the rooms where calls wait."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        return [Route("/room/{room}/questions", self._requests.page(self._show))]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        return HTMLResponse(await self.render(caller))

    async def render(self, caller: Caller) -> Markup:
        """Return the cards of the caller's room; empty if no call waits there."""
        approvals = self._requests.services.tools.approvals
        if not approvals.list_in(caller.room_id):
            return Markup()
        room = await caller.room()
        waiting = (await invoke(caller, "approvals", {})).waiting
        return self._requests.frames.render(
            "questions.html", path=room_path(room.name), room=room.name,
            waiting=[(one, write_arguments(one.arguments)) for one in waiting],
        )  # fmt: skip
