"""Signing in and out, and files of the console itself."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.json_guard import load_json
from sshwarma.web.console.frames import send_static
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.web.request_body import read_body
from sshwarma.world.errors import Invalid

MAX_SIGN_IN_BYTES = 1_000
"""Bytes of what signs a browser in: one secret."""


class SessionPages:
    """The pages of who comes and goes."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/in", page(self._show_sign_in)),
            Route("/in", page(self._begin), methods=["POST"]),
            Route("/out", page(self._end), methods=["POST"]),
            Route("/static/{version}/{path:path}", page(self._send_static)),
        ]

    async def _show_sign_in(self, request: Request) -> Response:
        has_left = "out" in request.query_params
        # A link of others would sign this browser in as them, and have what is typed here.
        asks = request.headers.get("sec-fetch-site") != "none"
        return self._requests.frames.show(
            "sign_in.html", title="Sign in", has_left=has_left, asks=asks
        )

    async def _begin(self, request: Request) -> Response:
        """Sign a browser in by the secret of a link, which its script has posted."""
        body = b"".join([part async for part in read_body(request, MAX_SIGN_IN_BYTES)])
        try:
            found = load_json(body)
            secret, is_sure = found["link"], bool(found.get("instead"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Invalid('The body must be {"link": "…"}.') from error
        if not isinstance(secret, str) or not secret.isascii():
            raise Invalid("link: must be the secret of a link.")
        replaced = await self._requests.sign_in.find_replaced(request, secret)
        if replaced is not None and not is_sure:
            html = self._requests.frames.render("sign_in_instead.html", names=replaced)
            return HTMLResponse(html, status_code=409)
        response = Response(status_code=204)
        await self._requests.sign_in.sign_in(request, secret, response)
        return response

    async def _end(self, request: Request) -> Response:
        """Sign the browser out."""
        response = RedirectResponse("/in?out", status_code=303)
        await self._requests.sign_in.sign_out(request, response)
        return response

    async def _send_static(self, request: Request) -> Response:
        return send_static(request.path_params["version"], request.path_params["path"])
