"""The HTTP server: /healthz, /metrics, /api and the routes of other parts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Mapping
from functools import partial

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import sshwarma
from sshwarma.common.limits import MAX_CONSOLE_MESSAGE_BYTES
from sshwarma.settings import HttpSettings, ReloadableSettings, format_address, split_address
from sshwarma.web._uvicorn import SocketConnection, serve_connection
from sshwarma.web.api import HttpApi
from sshwarma.web.connection import BoundedConnection
from sshwarma.web.console.pages import Console
from sshwarma.web.errors import handle_http_exception, handle_internal_error
from sshwarma.web.forwarded import ForwardedAddress
from sshwarma.web.health_metrics import HealthMetricsCollector
from sshwarma.web.host_check import HostCheck
from sshwarma.web.metrics import MetricsPage
from sshwarma.world.errors import WorldError
from sshwarma.world.world import World
from sshwarma.world.write_check import WriteCheck

SHUTDOWN_TIMEOUT_SECONDS = 5
"""Time for running requests to finish when the server stops."""


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server without signal handlers; the program handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _AsgiEndpoint:
    """An ASGI application as the endpoint of a route.

    It must be an object: Starlette treats a function as a request handler.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def find_public_url(settings: HttpSettings, http: HttpServer | None) -> str:
    """Return the URL at which others reach the HTTP server; "" if it is off."""
    if settings.public_url:
        return settings.public_url
    return f"http://{format_address(split_address(settings.listen)[0], http.port)}" if http else ""


class HttpServer:
    """HTTP server: `bind` takes its address, `serve` returns when it accepts clients."""

    def __init__(
        self,
        world: World,
        metrics: MetricsPage,
        api: HttpApi,
        routes: Mapping[str, ASGIApp] | None = None,
        settings: ReloadableSettings | None = None,
        console: Console | None = None,
    ) -> None:
        """Make a server; `routes` maps paths to applications that answer all methods.

        `settings` are those in force, with its limits.
        """
        self._settings = settings or ReloadableSettings()
        self._write_check = WriteCheck(world.store)
        self._draining = world.draining
        health = HealthMetricsCollector(self._write_check, world.draining)
        metrics.add(health, health.refresh)
        self._api = api
        self._console = console
        self._others = routes or {}
        self._metrics_page = metrics
        self._listening: socket.socket | None = None
        self._server: _EmbeddedServer | None = None
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return 0 if self._server is None else len(self._server.server_state.connections)

    def bind(self, host: str, port: int) -> None:
        """Take HOST:PORT; port 0 picks a free one and stores it in `port`.

        Clients that connect now are accepted once the server serves.

        Raises:
            OSError: if the server cannot listen at the address.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen()
        except OSError:
            listening.close()
            raise
        self._listening = listening
        self.port = int(listening.getsockname()[1])

    def unbind(self) -> None:
        """Release the address, if the server has one."""
        if self._listening is not None:
            self._listening.close()

    async def serve(self) -> None:
        """Accept connections at the bound address."""
        listening = self._listening
        if listening is None:
            raise RuntimeError("bind comes first")
        app = Starlette(
            routes=[
                Route("/healthz", self._health),
                Route("/metrics", self._metrics),
                *self._api.routes,
                *(self._console.routes if self._console is not None else ()),
                *(Route(path, _AsgiEndpoint(asgi_app)) for path, asgi_app in self._others.items()),
            ],
            exception_handlers={
                HTTPException: self._handle_http_exception,
                Exception: handle_internal_error,
            },
        )
        config = uvicorn.Config(
            HostCheck(ForwardedAddress(app, self._settings), self._settings),
            http=partial(BoundedConnection, settings=self._settings),  # type: ignore[arg-type]
            proxy_headers=False,  # of uvicorn, which take any text for an address
            log_config=None,
            access_log=False,
            lifespan="off",
            ws=SocketConnection,
            ws_max_size=MAX_CONSOLE_MESSAGE_BYTES,
            ws_per_message_deflate=False,
            server_header=False,
            headers=[("X-Content-Type-Options", "nosniff")],
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
        )
        self._server = _EmbeddedServer(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listening]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.005)

    async def serve_connection(self, connected: socket.socket, client: tuple[str, int]) -> None:
        """Serve a connected socket for a client at an address and port."""
        if self._server is None:
            raise RuntimeError("serve comes first")
        await serve_connection(self._server, connected, client)

    async def stop(self) -> None:
        """Stop the server, if it is running, and wait until its task has ended."""
        if self._server is not None and self._task is not None:
            self._api.close()
            if self._console is not None:
                self._console.begin_stop()
            self._server.should_exit = True
            await self._task
            if self._console is not None:
                await self._console.close()

    async def _handle_http_exception(self, request: Request, error: Exception) -> Response:
        """Return the response of an error: for a browser that looks for a page, a page."""
        is_missing = isinstance(error, HTTPException) and error.status_code == 404
        wants_page = "text/html" in request.headers.get("accept", "")
        if is_missing and wants_page and self._console is not None and request.method == "GET":
            return await self._console.show_missing(request)
        return await handle_http_exception(request, error)

    async def _health(self, request: Request) -> Response:
        """Return 200 if the world can be written to, else 503 with the reason.

        While the server drains, too: a balancer sends nobody here then.
        """
        if self._draining.is_on:
            reason = self._draining.describe()
            return JSONResponse({"status": "draining", "reason": reason}, status_code=503)
        try:
            await self._write_check.run()
        except WorldError as error:
            return JSONResponse({"status": "failing", "reason": str(error)}, status_code=503)
        return JSONResponse({"status": "ok", "version": sshwarma.__version__})

    async def _metrics(self, request: Request) -> Response:
        return Response(await self._metrics_page.render(), media_type=CONTENT_TYPE_LATEST)
