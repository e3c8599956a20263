"""Sockets of tabs: who may open one, and with what they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.websockets import WebSocket

from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.web.console.sign_in import check_origin
from sshwarma.web.console.socket_end import LOST_ROOM, SIGNED_OUT, end_with
from sshwarma.web.errors import Unauthorized
from sshwarma.world.browser_sessions import read_idle_seconds_left
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, WorldError
from sshwarma.world.open_requests import OpenRequest
from sshwarma.world.tokens import SIGNED_OUT_REASON

Serve = Callable[[WebSocket, Caller, OpenRequest], Awaitable[None]]

IDLE_CHECK_SECONDS: Final = 1.0
"""Seconds after the end of a session at which it is looked at again."""


async def serve_socket(
    requests: ConsoleRequests, socket: WebSocket, serve: Serve, subprotocol: str | None = None
) -> None:
    """Accept a socket of a page of this server, and serve it while its session lasts.

    Another page's is refused before it is accepted: HTTP 403. A browser that is not signed in gets
    a close with a code, which its script can read.
    """
    try:
        check_origin(socket.scope)
    except Forbidden:
        await socket.close()
        return
    if subprotocol is not None and subprotocol not in socket.scope["subprotocols"]:
        await socket.close()
        return
    await socket.accept(subprotocol)
    opened: OpenRequest | None = None
    try:
        caller, opened = await requests.find_caller(socket)
        watching = asyncio.ensure_future(_end_when_idle(requests, opened))
        try:
            with opened:
                await serve(socket, caller, opened)
        finally:
            watching.cancel()
    except Unauthorized as error:
        await end_with(socket, error, SIGNED_OUT)
    except WorldError as error:
        is_out = opened is not None and opened.lost_access
        await end_with(socket, error, SIGNED_OUT if is_out else LOST_ROOM)


async def _end_when_idle(requests: ConsoleRequests, opened: OpenRequest) -> None:
    """End a tab that was left open, as its session has ended."""
    session_id = opened.token.id if opened.token is not None else ""
    read = partial(read_idle_seconds_left, session_id=session_id)
    while (seconds := await requests.world.store.read(read)) >= 0:  # noqa: ASYNC110 - for hours
        await asyncio.sleep(seconds + IDLE_CHECK_SECONDS)
    opened.end_access(SIGNED_OUT_REASON)
