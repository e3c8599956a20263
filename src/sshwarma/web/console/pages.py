"""The console: all its pages, and the socket of a tab."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from sshwarma.services import Services
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.web.console.call_pages import CallPages
from sshwarma.web.console.completions import Completions
from sshwarma.web.console.conversation_pages import ConversationPages
from sshwarma.web.console.debug_panel import DebugPanel
from sshwarma.web.console.figures_page import FiguresPage
from sshwarma.web.console.files_panel import FilesPanel
from sshwarma.web.console.go_page import GoPage
from sshwarma.web.console.here_panel import HerePanel
from sshwarma.web.console.live import LiveRooms
from sshwarma.web.console.map_page import MapPage
from sshwarma.web.console.memory_panel import MemoryPanel
from sshwarma.web.console.messages import Messages
from sshwarma.web.console.picture_drawings import PictureDrawings
from sshwarma.web.console.questions import Questions
from sshwarma.web.console.requests import ConsoleRequests, read_number
from sshwarma.web.console.room_page import RoomPages
from sshwarma.web.console.rooms_page import RoomsPage
from sshwarma.web.console.row_html import RowDrawings
from sshwarma.web.console.server_pages import ServerPages
from sshwarma.web.console.session_pages import SessionPages
from sshwarma.web.console.sockets import serve_socket
from sshwarma.web.console.system_page import SystemPage
from sshwarma.web.console.terminal_page import Shells, TerminalPages
from sshwarma.web.console.tools_panel import ToolsPanel
from sshwarma.web.console.toolset_pages import ToolsetPages
from sshwarma.web.console.verb_pages import VerbPages
from sshwarma.world.caller import Caller
from sshwarma.world.open_requests import OpenRequest
from sshwarma.world.world import World


class Console:
    """The pages of the console, each group of them an object with `routes`."""

    def __init__(
        self, world: World, services: Services, line_rate: LineRateLimiter, shells: Shells
    ) -> None:
        self._requests = requests = ConsoleRequests(world, services, line_rate)
        drawings = RowDrawings(world)
        self._live = LiveRooms(world, drawings, requests.find_last_request)
        questions, messages = Questions(requests), Messages(requests)
        rooms = RoomPages(requests, drawings, questions, messages)
        self._pictures = PictureDrawings()
        self._pages = (
            SessionPages(requests),
            RoomsPage(requests, messages, self._live.is_leaving),
            GoPage(requests),
            messages,
            ConversationPages(requests),
            rooms,
            questions,
            Completions(requests),
            VerbPages(requests),
            HerePanel(requests, rooms),
            CallPages(requests, rooms, self._pictures),
            MemoryPanel(requests, rooms),
            SystemPage(requests),
            ToolsPanel(requests, rooms),
            ToolsetPages(requests),
            ServerPages(requests),
            FilesPanel(requests, rooms, self._pictures),
            DebugPanel(requests, rooms),
            MapPage(requests),
            FiguresPage(requests),
            TerminalPages(requests, shells),
        )

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of the pages, for Starlette."""
        pages = [route for group in self._pages for route in group.routes]
        return [*pages, WebSocketRoute("/live", self._hear)]

    async def show_missing(self, request: Request) -> Response:
        """Return the page of a path that there is not."""
        return await self._requests.show_missing(request)

    def begin_stop(self) -> None:
        """End what forms have begun, because the server stops."""
        self._requests.end_forms("The server stops.")

    async def close(self) -> None:
        """End what goes on after the last request."""
        await self._live.close()
        await self._pictures.close()

    async def _hear(self, socket: WebSocket) -> None:
        """Serve the socket of a tab."""
        await serve_socket(self._requests, socket, self._serve_tab)

    async def _serve_tab(self, socket: WebSocket, caller: Caller, opened: OpenRequest) -> None:
        after = read_number(socket.query_params.get("after"))
        await self._live.serve(socket, caller, after, opened.token)
