"""Who asks for a page: the cookie of a browser, and the origin of requests."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from sshwarma.common.limits import BROWSER_SESSION_SECONDS
from sshwarma.web.errors import Unauthorized
from sshwarma.web.request_body import client_address
from sshwarma.world import browser_sessions
from sshwarma.world.agents import Agent
from sshwarma.world.audit import LOGIN, Origin, origin_of_token, record_change
from sshwarma.world.bearer import find_holder
from sshwarma.world.browser_sessions import SignInLink
from sshwarma.world.errors import Forbidden
from sshwarma.world.identity import read_world_id
from sshwarma.world.store import Change
from sshwarma.world.tokens import Token, end_token
from sshwarma.world.world import World

USED_LINK: Final = "This link was used, or is older than two minutes."
ITSELF_HEADER: Final = "Sshwarma-Itself"
"""The header of requests that a page makes by itself, to show what has changed."""

OTHER_ORIGIN: Final = "This request comes from a page of another site."


class BrowserSignIn:
    """Signs browsers in and out, and tells whose a request is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cookie = ""

    async def _cookie_name(self) -> str:
        """Return the name of the cookie: worlds at ports of one host share cookies."""
        if not self._cookie:
            self._cookie = f"sshwarma-{await self._world.store.read(read_world_id)}"
        return self._cookie

    async def find(self, request: HTTPConnection) -> tuple[Agent, Token]:
        """Return whose browser it is, and its session.

        Raises:
            Unauthorized: if it is not signed in.
        """
        secret = _read_cookie(request, await self._cookie_name())
        is_asked = request.scope["type"] == "http" and ITSELF_HEADER not in request.headers
        find = partial(browser_sessions.find_session, secret=secret)
        token, agent = await find_holder(self._world, find, is_use=is_asked)
        if token is None or agent is None:
            explain = partial(browser_sessions.explain_end, secret=secret)
            raise Unauthorized(await self._world.store.read(explain))
        return agent, token

    async def find_replaced(self, request: HTTPConnection, secret: str) -> tuple[str, str] | None:
        """Return whom a link would sign out, and whom in; None if nobody is."""
        link = self._world.sign_in_links.find(secret)
        try:
            agent, _ = await self.find(request)
        except Unauthorized:
            return None
        if link is None or link.agent_id == agent.id:
            return None
        return agent.name, self._world.agents.name_of(link.agent_id)

    async def sign_in(self, request: HTTPConnection, secret: str, response: Response) -> None:
        """Sign a browser in by the secret of a link: give the response its cookie.

        Raises:
            Forbidden: if the link, or what it rests on, is not valid.
        """
        address = client_address(request)
        link = self._world.sign_in_links.take(secret)
        agent = None if link is None else self._world.agents.get(link.agent_id)
        if link is None or agent is None or agent.disabled:
            self._world.failed_logins.record("web", USED_LINK, Origin(address))
            raise Forbidden(USED_LINK, hint="Ask for another: ssh HOST web")
        browser = request.headers.get("user-agent", "")

        token, cookie = await self._world.change(
            partial(_begin_session, link=link, address=address, browser=browser)
        )
        self._world.last_use.note_token(token)
        is_secure, name = _is_secure(request), await self._cookie_name()
        response.set_cookie(
            f"__Host-{name}" if is_secure else name,
            cookie,
            max_age=BROWSER_SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=is_secure,
        )

    async def sign_out(self, request: HTTPConnection, response: Response) -> None:
        """End the session of a browser, if it has one, and take its cookie."""
        is_secure, name = _is_secure(request), await self._cookie_name()
        # As it was set: a browser ignores a cookie of that prefix that is not secure.
        response.delete_cookie(
            f"__Host-{name}" if is_secure else name,
            secure=is_secure, httponly=True, samesite="strict",
        )  # fmt: skip
        with contextlib.suppress(Unauthorized):
            _, token = await self.find(request)
            await self._world.change(partial(_end_session, token=token, request=request))


def _end_session(tx: Change, token: Token, request: HTTPConnection) -> None:
    end_token(tx, token)
    record_change(
        tx, door="web", verb="web end", request="", agent_id=token.agent_id, room_id=None,
        origin=origin_of_token(client_address(request), token.id),
    )  # fmt: skip


def _begin_session(tx: Change, link: SignInLink, address: str, browser: str) -> tuple[Token, str]:
    token, cookie = browser_sessions.sign_in(tx, link, address, browser)
    origin = origin_of_token(address, token.id)
    record_change(
        tx, door="web", verb=LOGIN, request=browser, agent_id=token.agent_id, room_id=None,
        origin=origin,
    )  # fmt: skip
    return token, cookie


def _read_cookie(request: HTTPConnection, name: str) -> str:
    return request.cookies.get(f"__Host-{name}" if _is_secure(request) else name, "")


def _is_secure(request: HTTPConnection) -> bool:
    return request.scope["scheme"] in ("https", "wss")


def check_origin(scope: Any) -> None:
    """Refuse what a page of another site asks; for all but GET, and for sockets.

    Another port of this host is another site here, though browsers send it the cookie.

    Raises:
        Forbidden: if the origin is not this host, or is not given.
    """
    headers = {
        name: value.decode("latin-1")
        for name, value in scope["headers"]
        if name in (b"origin", b"host", b"sec-fetch-site")
    }
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    own = f"{scheme}://{headers.get(b'host', '')}"
    site = headers.get(b"sec-fetch-site", "same-origin")
    if headers.get(b"origin") != own or site != "same-origin":
        raise Forbidden(OTHER_ORIGIN)
