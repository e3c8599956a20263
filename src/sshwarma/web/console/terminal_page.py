"""`/term`: the terminal of ssh in a browser, and the socket that it speaks over."""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.web.console.socket_end import TOO_MANY
from sshwarma.web.console.sockets import serve_socket
from sshwarma.web.console.terminal_channel import Shell, TerminalChannel
from sshwarma.world.audit import Origin
from sshwarma.world.caller import Caller
from sshwarma.world.open_requests import OpenRequest

SUBPROTOCOL: Final = "sshwarma.term.1"


class Shells(Protocol):
    """Opens shells that write to terminals.

    Attributes:
        max_per_agent: terminals of one agent.
        is_stopping: whether shells end because the server stops.
    """

    max_per_agent: int
    is_stopping: bool

    def open(
        self, agent_id: str, origin: Origin, channel: TerminalChannel, start_room_id: str
    ) -> Shell:
        """Open a shell for an agent, in a room or, with "", where shells begin.

        Raises:
            Forbidden: if the agent is deleted or disabled.
        """


class TerminalPages:
    """The page of the terminal, and all open terminals."""

    def __init__(self, requests: ConsoleRequests, shells: Shells) -> None:
        self._requests = requests
        self._shells = shells
        self._counts: Counter[str] = Counter()  # by agent

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page(self._show)
        return [Route("/term", page), WebSocketRoute("/term", self._hear)]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        room = await caller.room() if "in" in request.query_params else None
        return await self._requests.show_page(
            request, caller, "terminal.html", title="Terminal", room=room.name if room else ""
        )

    async def _hear(self, socket: WebSocket) -> None:
        """Serve the socket of a terminal."""
        await serve_socket(self._requests, socket, self._serve, SUBPROTOCOL)

    async def _serve(self, socket: WebSocket, caller: Caller, opened: OpenRequest) -> None:
        agent_id = caller.agent.id
        if self._counts[agent_id] >= self._shells.max_per_agent:
            count_refusal("console_terminals")
            limit = with_limit("Too many open terminals of yours", self._shells.max_per_agent)
            await socket.close(TOO_MANY, f"{limit}.")
            return
        self._counts[agent_id] += 1
        try:
            channel = TerminalChannel(
                socket, lambda: self._shells.is_stopping, partial(self._note_use, opened)
            )
            with contextlib.suppress(WebSocketDisconnect):
                await channel.read_size()
                start = caller.room_id if "in" in socket.query_params else ""
                await channel.run(self._shells.open(agent_id, caller.origin, channel, start))
        finally:
            self._counts[agent_id] -= 1
            if not self._counts[agent_id]:
                del self._counts[agent_id]

    def _note_use(self, opened: OpenRequest) -> None:
        """Take note that somebody types: the session is in use."""
        if opened.token is not None:
            self._requests.world.last_use.note_token(opened.token)
