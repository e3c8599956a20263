"""The panel with the keys of two memories: of the room, and of its project."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_CONSOLE_KEYS
from sshwarma.verbs.dispatch import invoke
from sshwarma.web.console.frames import room_path
from sshwarma.web.console.requests import ConsoleRequests, read_number
from sshwarma.web.console.room_page import RoomPages
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, WorldError

SCOPES: Final = ("project", "session")


class MemoryPanel:
    """The panel `memory`: keys, a value, its history, and a form to change it."""

    def __init__(self, requests: ConsoleRequests, rooms: RoomPages) -> None:
        self._requests = requests
        self._rooms = rooms

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/room/{room}/memory", page(self._show)),
            Route("/room/{room}/memory/{scope}/value", page(self._send_value)),
            Route("/room/{room}/memory/{scope}/key", page(self._show_key)),
        ]

    async def _show(self, request: Request) -> Response:
        """List the keys of one memory: `?scope=`, `?prefix=`, `?offset=`."""
        caller, _ = await self._requests.find_caller(request)
        query = request.query_params
        scope = _read_scope(query.get("scope", SCOPES[0]))
        offset, prefix = read_number(query.get("offset")), query.get("prefix", "")
        arguments = {"limit": MAX_CONSOLE_KEYS, "offset": offset}
        listed = await invoke(
            caller, f"mem {scope} list", arguments | ({"prefix": prefix} if prefix else {})
        )
        described = {entry.key: (entry, author) for entry, author in listed.entries}
        room = (await caller.room()).name
        html = self._requests.frames.render(
            "memory.html", path=room_path(room), room=room, scope=scope, scopes=SCOPES,
            keys=[(key, *described.get(key, (None, ""))) for key in listed.keys], prefix=prefix,
            total=listed.total, project=listed.project, offset=offset, limit=MAX_CONSOLE_KEYS,
        )  # fmt: skip
        return await self._rooms.show_panel(request, caller, "memory", html)

    async def _send_value(self, request: Request) -> Response:
        """Send the value of `?key=`, for the window of a key."""
        caller, scope, key = await self._read_request(request)
        found = await invoke(caller, f"mem {scope} get", {"key": key})
        html = self._requests.frames.render("memory_value.html", found=found)
        return HTMLResponse(html, status_code=200 if found.found else 404)

    async def _show_key(self, request: Request) -> Response:
        """Show the value of `?key=`, with its history and a form that changes it."""
        caller, scope, key = await self._read_request(request)
        found = await invoke(caller, f"mem {scope} get", {"key": key})
        history, editor, problem = "", "", ""
        if found.found:
            past = await invoke(caller, f"mem {scope} history", {"key": key})
            history = await self._requests.draw(caller, past)
        try:
            draft = await invoke(caller, f"mem {scope} edit", {"key": key})
            editor = await self._requests.draw(caller, draft)
        except WorldError as error:
            problem = str(error)
        room = (await caller.room()).name
        html = self._requests.frames.render(
            "memory_key.html", path=room_path(room), room=room, scope=scope, key=key, found=found,
            history=history, editor=editor, problem=problem,
        )  # fmt: skip
        return await self._rooms.show_panel(request, caller, "memory", html)

    async def _read_request(self, request: Request) -> tuple[Caller, str, str]:
        caller, _ = await self._requests.find_caller(request)
        return (
            caller,
            _read_scope(request.path_params["scope"]),
            request.query_params.get("key", ""),
        )


def _read_scope(name: str) -> str:
    if name not in SCOPES:
        raise NotFound(f"There is no such memory: {name}.")
    return name
