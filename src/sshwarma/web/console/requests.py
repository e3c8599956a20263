"""Requests for pages: who asks, in which room, and how an answer is shown."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote
from weakref import WeakSet

from markupsafe import Markup
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, Response

from sshwarma.common.limits import MAX_API_REQUESTS_PER_AGENT, MAX_EXACT_INTEGER
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.common.shorten import shorten_name
from sshwarma.services import Services
from sshwarma.verbs.edit_draft import EditDraft
from sshwarma.verbs.file_views import FileChange
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.search import SearchResults
from sshwarma.web.console.frames import (
    HEADERS,
    Frames,
    find_page,
    render_block,
    render_result,
    room_path,
    wants_part,
)
from sshwarma.web.console.search_hits import list_hits
from sshwarma.web.console.sign_in import BrowserSignIn, check_origin
from sshwarma.web.errors import HTTP_STATUSES, Unauthorized
from sshwarma.web.request_body import client_address
from sshwarma.world.audit import origin_of_token
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, NotFound, RateLimited, WorldError
from sshwarma.world.open_requests import OpenRequest
from sshwarma.world.world import World

OWNER_HEADER: Final = "Sshwarma-Owner"
"""The header with the name of the person for whom a page was made, percent-encoded."""

OWNER_PARAMETER: Final = "owner"
"""The same in the query of sockets, and of forms that are sent as pages: they have no headers."""

MAX_DIGITS: Final = 16
"""Digits of the numbers that scripts and paths have: Python refuses to read very long ones."""


class _Digits(StringConvertor):
    """A number in a path, as text: Starlette's own fails at a very long one."""

    regex = "[0-9]+"


register_url_convertor("digits", _Digits())

Answer = Callable[[Request], Awaitable[Response]]


class ConsoleRequests:
    """Reads requests of browsers, and answers them."""

    def __init__(self, world: World, services: Services, line_rate: LineRateLimiter) -> None:
        self.world = world
        self.services = services
        self.line_rate = line_rate
        self.sign_in = BrowserSignIn(world)
        self.frames = Frames()
        self._last_requests: dict[str, float] = {}  # by agent
        self._forms: WeakSet[OpenRequest] = WeakSet()

    def page(self, answer: Answer) -> Answer:
        """Return the endpoint of a page: it checks the origin, and shows refusals."""

        async def endpoint(request: Request) -> Response:
            try:
                if request.method not in ("GET", "HEAD"):
                    check_origin(request.scope)
                response = await answer(request)
            except WorldError as error:
                response = self.show_refusal(request, error, who=await self._find_name(request))
            except ClientDisconnect:
                response = Response(status_code=499)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return endpoint

    async def _find_name(self, request: Request) -> str:
        """Return the name of who is signed in, or ""."""
        with contextlib.suppress(Unauthorized):
            return (await self.sign_in.find(request))[0].name
        return ""

    async def show_missing(self, request: Request) -> Response:
        """Return the page of a path that there is not."""
        error = NotFound("There is no page at this address.")
        return await self.page(_refuse(error))(request)

    def show_refusal(
        self, request: Request, error: WorldError, typed: str = "", who: str = ""
    ) -> Response:
        """Return a refusal: as a part of a page, or as a page, of who is signed in."""
        status = HTTP_STATUSES.get(error.code, 422)
        drawn = render_block(draw_refusal(error, typed))
        if wants_part(request):
            return HTMLResponse(drawn, status_code=status)
        if isinstance(error, Unauthorized):
            # From a page of another site, a browser does not send the cookie.
            is_led = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
            return self.frames.show(
                "signed_out.html", status, title="Sign in", reason=error.message,
                asks_again=is_led and "again" not in request.query_params,
            )  # fmt: skip
        return self.frames.show("refusal.html", status, title="Not done", refusal=drawn, who=who)

    async def find_caller(
        self, request: HTTPConnection, *, is_read: bool = True
    ) -> tuple[Caller, OpenRequest]:
        """Return who asks, in the room of the path or of `?in=`, and the request.

        That ends with the session.

        Raises:
            Unauthorized: if the browser is not signed in.
            NotFound, Forbidden: if there is no such room, or it may not be entered.
        """
        agent, token = await self.sign_in.find(request)
        _check_owner(request, agent.name)
        if request.scope["type"] == "http":
            self._last_requests[agent.id] = time.monotonic()
        await self.line_rate.admit(agent.id, is_read=is_read)
        caller = Caller(
            world=self.world,
            services=self.services,
            limits=self.services.settings.limits,
            agent=agent,
            room_id=agent.room_id,
            door="web",
            scope=token.scope,
            origin=origin_of_token(client_address(request), token.id),
        )
        name = request.path_params.get("room") or request.query_params.get("in")
        caller = await (caller.in_room(name) if name else caller.in_accessible_room())
        opened = self.world.open_requests.begin(agent.id, token=token)
        if not is_read:
            self._check_forms(agent.id)
            self._forms.add(opened)
        return caller, opened

    def find_last_request(self, agent_id: str) -> float:
        """Return when a browser of an agent asked last, by time.monotonic()."""
        return self._last_requests.get(agent_id, 0.0)

    def _check_forms(self, agent_id: str) -> None:
        """Refuse another form of an agent that has too many on their way."""
        if sum(one.agent_id == agent_id for one in self._forms) >= MAX_API_REQUESTS_PER_AGENT:
            count_refusal("api_requests")
            limit = with_limit("Too many open requests", MAX_API_REQUESTS_PER_AGENT)
            raise RateLimited(f"{limit}.", retry_after_seconds=1)

    def end_forms(self, reason: str) -> None:
        """End what forms have begun, such as a call that waits for an answer."""
        for opened in list(self._forms):
            opened.end(reason)

    async def show_page(
        self, request: Request, caller: Caller, frame: str, status: int = 200, **values: Any
    ) -> Response:
        """Return a page whose links stay in the room that the request names."""
        room = (await caller.room()).name if request.query_params.get("in") else ""
        return self.frames.show(
            frame, status, who=caller.agent.name, in_room=room,
            current=find_page(request.url.path), **values,
        )  # fmt: skip

    async def draw(self, caller: Caller, result: object) -> Markup:
        """Return the result of a verb as HTML: a text to edit as a form that stores it."""
        if isinstance(result, EditDraft):
            path = room_path((await caller.room()).name)
            before = result.line.removesuffix(result.text)
            return self.frames.render("draft.html", draft=result, path=path, before=before)
        if isinstance(result, SearchResults) and result.entries:
            return self.frames.render("search.html", **list_hits(caller, result))
        drawn = await asyncio.to_thread(render_result, result)  # it may have megabytes
        if isinstance(result, FileChange) and result.version:
            room = await caller.room()
            return self.frames.render("file_change.html", change=result, drawn=drawn, room=room)
        return drawn


def _refuse(error: WorldError) -> Answer:
    """Return an endpoint that refuses all."""

    async def answer(_request: Request) -> Response:
        raise error

    return answer


def _check_owner(request: HTTPConnection, name: str) -> None:
    """Refuse what a page of another person asks, after a new sign-in.

    Raises:
        Forbidden: if the page is of another than `name`.
    """
    given = request.query_params.get(OWNER_PARAMETER, "")
    owner = unquote(request.headers.get(OWNER_HEADER, "")) or given
    if owner and owner != name:
        raise Forbidden(f"This page is of {owner}, and this browser is signed in as {name} now.")


@contextlib.contextmanager
def working(opened: OpenRequest) -> Iterator[None]:
    """Run the block as a request that ends with its session.

    Raises:
        Unauthorized: if the session has ended meanwhile.
    """
    try:
        with opened:
            yield
    except Forbidden as error:
        if opened.lost_access:
            raise Unauthorized(opened.reason) from error
        raise


def read_row(request: Request) -> int:
    """Return the number of a row in a path; 0 without one.

    Raises:
        NotFound: if no row can have it.
    """
    digits: str = request.path_params.get("seq", "0")
    seq = read_number(digits)
    if len(digits) > MAX_DIGITS or seq > MAX_EXACT_INTEGER:
        raise NotFound(f"There is no row {shorten_name(digits)}.")
    return seq


def read_number(text: Any) -> int:
    """Return a number that a script has sent; 0 if it is malformed."""
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal()
    is_number = is_number and len(text) <= MAX_DIGITS
    return int(text) if is_number else 0
