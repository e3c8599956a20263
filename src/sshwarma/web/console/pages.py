"""The console: all its pages, and the socket of a tab."""

from __future__ import annotations

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from sshwarma.services import Services
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.web.console.completions import Completions
from sshwarma.web.console.here_panel import HerePanel
from sshwarma.web.console.live import LOST_ROOM, SIGNED_OUT, LiveRooms, end_with
from sshwarma.web.console.requests import ConsoleRequests, read_number
from sshwarma.web.console.room_page import RoomPages
from sshwarma.web.console.row_html import RowDrawings
from sshwarma.web.console.session_pages import SessionPages
from sshwarma.web.console.sign_in import check_origin
from sshwarma.web.console.verb_pages import VerbPages
from sshwarma.web.errors import Unauthorized
from sshwarma.world.errors import Forbidden, WorldError
from sshwarma.world.open_requests import OpenRequest
from sshwarma.world.world import World


class Console:
    """The pages of the console, each group of them an object with `routes`."""

    def __init__(self, world: World, services: Services, line_rate: LineRateLimiter) -> None:
        self._requests = requests = ConsoleRequests(world, services, line_rate)
        drawings = RowDrawings(world)
        self._live = LiveRooms(world, drawings)
        rooms = RoomPages(requests, drawings)
        self._pages = (
            SessionPages(requests),
            rooms,
            Completions(requests),
            VerbPages(requests),
            HerePanel(requests, rooms),
        )

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of the pages, for Starlette."""
        pages = [route for group in self._pages for route in group.routes]
        return [*pages, WebSocketRoute("/live", self._hear)]

    async def close(self) -> None:
        """End what goes on after the last request."""
        await self._live.close()

    async def _hear(self, socket: WebSocket) -> None:
        """Serve the socket of a tab."""
        try:
            check_origin(socket.scope)
        except Forbidden:
            await socket.close()  # before it is accepted: HTTP 403
            return
        await socket.accept()
        opened: OpenRequest | None = None
        try:
            caller, opened = await self._requests.find_caller(socket)
            with opened:
                after = read_number(socket.query_params.get("after"))
                await self._live.serve(socket, caller, after)
        except Unauthorized as error:
            await end_with(socket, error, SIGNED_OUT)
        except WorldError as error:
            is_out = opened is not None and opened.lost_access
            await end_with(socket, error, SIGNED_OUT if is_out else LOST_ROOM)
