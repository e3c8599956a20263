"""The pages of the console: routes, and the frames around what verbs return."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from sshwarma.common.limits import MAX_CONSOLE_ROWS
from sshwarma.services import Services
from sshwarma.terminal.html import render_html
from sshwarma.terminal.text import block
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.dispatch import invoke, run_line
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.say import SentMessage, sender_note_lines
from sshwarma.verbs.views import draw_result
from sshwarma.web.console.live import LOST_ROOM, SIGNED_OUT, LiveRooms, end_with
from sshwarma.web.console.row_html import RowDrawings
from sshwarma.web.console.sign_in import BrowserSignIn, check_origin
from sshwarma.web.errors import HTTP_STATUSES, Unauthorized
from sshwarma.web.request_body import client_address, read_body
from sshwarma.world.access import Right
from sshwarma.world.audit import origin_of_token
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, NotFound, WorldError
from sshwarma.world.open_requests import OpenRequest
from sshwarma.world.rows import read_tail
from sshwarma.world.world import World

FOLDER: Final = Path(__file__).resolve().parent
STATIC: Final = FOLDER / "static"
STATIC_TYPES: Final = {".css": "text/css", ".js": "text/javascript"}

MAX_FIELDS: Final = 10
"""Fields of a form."""

MOVED_HEADER: Final = "Sshwarma-Path"
"""The header of an answer whose line has moved its caller: the path of the new room's page."""

PART_TYPE: Final = "text/html;part"
"""What a script accepts that puts an answer into its page."""

_POLICY: Final = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:",
        "font-src 'self'", "connect-src 'self'", "form-action 'self'", "base-uri 'none'",
        "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types sshwarma",
    )
)  # fmt: skip
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: browsers then send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every page."""


@lru_cache(maxsize=1)
def static_version() -> str:
    """Return what changes when a file of the console does: the folder of its address."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in STATIC_TYPES:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Console:
    """The pages of the console."""

    def __init__(
        self,
        world: World,
        services: Services,
        line_rate: LineRateLimiter,
    ) -> None:
        self._world = world
        self._services = services
        self._line_rate = line_rate
        self._sign_in = BrowserSignIn(world)
        self._drawings = RowDrawings(world)
        self._live = LiveRooms(world, self._drawings)
        self._frames = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of the pages, for Starlette."""
        return [
            Route("/", self._page(self._show_rooms)),
            Route("/in", self._page(self._show_sign_in)),
            Route("/in", self._page(self._begin), methods=["POST"]),
            Route("/out", self._page(self._end), methods=["POST"]),
            Route("/room/{name}", self._page(self._show_room)),
            Route("/room/{name}", self._page(self._take_line), methods=["POST"]),
            Route("/static/{version}/{path:path}", self._page(self._send_static)),
            WebSocketRoute("/live", self._hear),
        ]

    async def close(self) -> None:
        """End what goes on after the last request."""
        await self._live.close()

    # Requests

    def _page(
        self, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                if request.method not in ("GET", "HEAD"):
                    check_origin(request.scope)
                response = await answer(request)
            except WorldError as error:
                response = self._show_refusal(request, error)
            except ClientDisconnect:
                response = Response(status_code=499)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return endpoint

    def _show(self, frame: str, status: int = 200, **values: Any) -> Response:
        """Return a page: a frame around what is in it."""
        common = {"static": f"/static/{static_version()}", "who": "", "title": "sshwarma"}
        page = self._frames.get_template(frame).render(**common | values)
        return HTMLResponse(page, status_code=status)

    def _show_refusal(self, request: Request, error: WorldError) -> Response:
        status = HTTP_STATUSES.get(error.code, 422)
        drawn = render_html(draw_refusal(error))
        if _wants_part(request):
            return HTMLResponse(drawn, status_code=status)
        if isinstance(error, Unauthorized):
            return self._show("signed_out.html", status, title="Sign in")
        return self._show("refusal.html", status, title="Not done", refusal=drawn)

    async def _find_caller(
        self, request: HTTPConnection, *, is_read: bool = True
    ) -> tuple[Caller, OpenRequest]:
        """Return who asks, in the room of the path, and the request.

        That ends with the session.

        Raises:
            Unauthorized: if the browser is not signed in.
            NotFound, Forbidden: if there is no such room, or it may not be entered.
        """
        agent, token = await self._sign_in.find(request)
        await self._line_rate.admit(agent.id, is_read=is_read)
        caller = Caller(
            world=self._world,
            services=self._services,
            limits=self._services.settings.limits,
            agent=agent,
            room_id=agent.room_id,
            door="web",
            scope=token.scope,
            origin=origin_of_token(client_address(request), token.id),
        )
        name = request.path_params.get("name") or request.query_params.get("room")
        caller = await (caller.in_accessible_room() if name is None else caller.in_room(name))
        return caller, self._world.open_requests.begin(agent.id, token=token)

    # Signing in

    async def _show_sign_in(self, request: Request) -> Response:
        return self._show("sign_in.html", title="Sign in")

    async def _begin(self, request: Request) -> Response:
        """Sign a browser in by the secret of a link, which its script has posted."""
        body = b"".join([part async for part in read_body(request, 1_000)])
        try:
            secret = json.loads(body)["link"]
        except (ValueError, TypeError, KeyError) as error:
            raise Invalid('The body must be {"link": "…"}.') from error
        if not isinstance(secret, str):
            raise Invalid("link: must be a text.")
        response = Response(status_code=204)
        await self._sign_in.sign_in(request, secret, response)
        return response

    async def _end(self, request: Request) -> Response:
        """Sign the browser out."""
        response = RedirectResponse("/in", status_code=303)
        await self._sign_in.sign_out(request, response)
        return response

    # Pages

    async def _show_rooms(self, request: Request) -> Response:
        caller, _ = await self._find_caller(request)
        listed = await invoke(caller, "rooms", {})
        return self._show("rooms.html", title="Rooms", who=caller.agent.name, rooms=listed.rooms)

    async def _show_room(self, request: Request) -> Response:
        caller, _ = await self._find_caller(request)
        before = _read_number(request.query_params.get("before", ""))
        return await self._show_room_page(caller, "", before=before)

    async def _find_new_room(self, caller: Caller, text: str) -> str:
        """Return the path of the room into which a line has moved the caller, or ""."""
        agent = self._world.agents.get(caller.agent.id)
        if agent is None or agent.room_id == caller.room_id or not _moves(text):
            return ""
        return _find_path((await self._world.room(agent.room_id)).name)

    async def _show_room_page(
        self, caller: Caller, answer: str, text: str = "", status: int = 200, before: int = 0
    ) -> Response:
        """Return the page of a room, with its newest rows, or those before a number."""
        room = await caller.room()
        await caller.require(Right.ENTER, room)
        if before:
            found = partial(read_tail, room_id=room.id, limit=MAX_CONSOLE_ROWS, before=before)
            rows = await self._world.store.read(found)
        else:
            rows = await self._world.last_rows(room.id, MAX_CONSOLE_ROWS)
        drawn = await self._drawings.draw(caller.agent, rows)
        present = {one.agent_id for one in self._world.presence.in_room(room.id)}
        here = ", ".join(sorted(map(self._world.agents.name_of, present)))
        return self._show(
            "room.html", title=room.name, who=caller.agent.name, room=room, rows=drawn,
            status=status, path=_find_path(room.name), answer=answer, text=text,
            after=rows[-1].seq if rows else 0, here=here, is_newest=not before,
            older=rows[0].seq if rows and rows[0].seq > 1 else 0,
        )  # fmt: skip

    async def _take_line(self, request: Request) -> Response:
        """Run a typed line; show what it gives, below the prompt."""
        caller, opened = await self._find_caller(request, is_read=False)
        limit = caller.limits.line_bytes
        body = b"".join([part async for part in read_body(request, 3 * limit + 1_000)])
        text = _read_field(body, "text").replace("\r\n", "\n").strip("\n")
        try:
            if not text.strip():
                raise Invalid("There is no text.")
            with opened:
                result = await run_line(caller, text)
        except WorldError as error:
            if _wants_part(request):
                raise
            drawn, status = (
                render_html(draw_refusal(error, text)),
                HTTP_STATUSES.get(error.code, 422),
            )
            return await self._show_room_page(caller, drawn, text, status)
        drawn = await asyncio.to_thread(_render_result, result)  # it may have megabytes
        path = await self._find_new_room(caller, text)
        if _wants_part(request):
            return HTMLResponse(drawn, headers={MOVED_HEADER: path} if path else None)
        if path:
            return RedirectResponse(path, status_code=303)
        return await self._show_room_page(caller, drawn)

    async def _hear(self, socket: WebSocket) -> None:
        """Serve the socket of a tab."""
        try:
            check_origin(socket.scope)
        except Forbidden:
            await socket.close()  # before it is accepted: HTTP 403
            return
        await socket.accept()
        after = socket.query_params.get("after", "")
        opened: OpenRequest | None = None
        try:
            caller, opened = await self._find_caller(socket)
            with opened:
                await self._live.serve(socket, caller, _read_number(after))
        except Unauthorized as error:
            await end_with(socket, error, SIGNED_OUT)
        except WorldError as error:
            is_out = opened is not None and opened.lost_access
            code = SIGNED_OUT if is_out else LOST_ROOM
            await end_with(socket, error, code)

    async def _send_static(self, request: Request) -> Response:
        """Send a file of the console, which never changes under its address."""
        path = (STATIC / request.path_params["path"]).resolve()
        if path.suffix not in STATIC_TYPES or STATIC not in path.parents or not path.is_file():
            raise NotFound("There is nothing at this path.")
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return FileResponse(path, media_type=STATIC_TYPES[path.suffix], headers=headers)


def _render_result(result: object) -> str:
    if isinstance(result, SentMessage):  # the log has it
        return render_html(block(*sender_note_lines(result)))
    return render_html(draw_result(result))


def _find_path(room: str) -> str:
    return f"/room/{quote(room)}"


def _moves(text: str) -> bool:
    """Return whether a line calls a verb that moves who types it."""
    try:
        return text.startswith("/") and split_verb(text[1:])[0].moves
    except WorldError:
        return False  # a command, or an alias


def _read_field(body: bytes, name: str) -> str:
    """Return a field of a form; "" without it.

    Raises:
        Invalid: if the form has too many fields.
    """
    try:
        fields = parse_qs(body.decode(errors="replace"), max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise Invalid(f"A form has at most {MAX_FIELDS} fields.") from error
    return fields.get(name, [""])[0]


def _read_number(text: str) -> int:
    """Return a number of a row that a script has sent; 0 if it is malformed."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 17 else 0


def _wants_part(request: Request) -> bool:
    return request.headers.get("accept", "").startswith(PART_TYPE)
