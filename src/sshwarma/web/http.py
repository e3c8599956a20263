"""The http port: /healthz says whether the world works, /metrics what it has done, /api does it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import sshwarma
from sshwarma.web.api import Api
from sshwarma.world.errors import Refused
from sshwarma.world.world import World

HEALTH_SECONDS = 5.0


class _Quiet(uvicorn.Server):
    """A server inside ours: signals are the program's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Http:
    """The listening port. `start` returns when it accepts."""

    def __init__(self, world: World, registry: CollectorRegistry, api: Api) -> None:
        self._world = world
        self._api = api
        self._registry = registry
        self._server: _Quiet | None = None
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen at HOST:PORT; port 0 picks a free one, then in `port`.

        Raises:
            OSError: if the address cannot be had.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError:
            listening.close()
            raise
        self.port = int(listening.getsockname()[1])
        app = Starlette(
            routes=[
                Route("/healthz", self._health),
                Route("/metrics", self._metrics),
                *self._api.routes,
            ]
        )
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False
        )
        self._server = _Quiet(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listening]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task

    async def _health(self, request: Request) -> Response:
        """200 if the database can be written and read now, else 503."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                await self._world.store.write(lambda tx: tx.conn.exec_driver_sql("SELECT 1").all())
        except (Refused, TimeoutError) as error:
            return JSONResponse({"status": "failing", "reason": str(error)}, status_code=503)
        return JSONResponse({"status": "ok", "version": sshwarma.__version__})

    async def _metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)
