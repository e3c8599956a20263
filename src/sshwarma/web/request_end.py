"""The end of a request whose client goes away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request

from sshwarma.world.open_requests import OpenRequest


@contextlib.asynccontextmanager
async def end_with_client(request: Request, opened: OpenRequest) -> AsyncIterator[None]:
    """End the request if its client disconnects; the body is read before."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        opened.end("The client disconnected.")

    watching = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})
