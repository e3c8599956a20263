"""Progress notifications of a tool call, for clients that ask for them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mcp.shared.jsonrpc_dispatcher import progress_token_from_params

from sshwarma.mcp.server.request_context import RequestContext
from sshwarma.tools.progress import ProgressText


@asynccontextmanager
async def progress_reporter(ctx: RequestContext) -> AsyncIterator[Callable[[str], None] | None]:
    """Yield a function that reports progress, or None if the client wants none.

    A newer report replaces one that is not sent yet. The numbers of a `ProgressText` are passed on,
    as long as they grow, which the protocol demands; other reports are counted.
    """
    if progress_token_from_params(ctx.params) is None:
        yield None
        return
    latest: list[str] = []
    event = asyncio.Event()

    def report(text: str) -> None:
        latest[:] = [text]
        event.set()

    async def send() -> None:
        sent = 0.0
        while True:
            await event.wait()
            event.clear()
            text, total = latest[0], None
            if isinstance(text, ProgressText):
                total = text.total
                sent = text.progress if text.progress > sent else math.nextafter(sent, math.inf)
            else:
                sent = math.floor(sent) + 1
            await ctx.session.report_progress(sent, total, str(text))

    task = asyncio.get_running_loop().create_task(send())
    try:
        yield report
    finally:
        task.cancel()
        # Retrieve the error of a disconnected client, or asyncio would report it.
        await asyncio.gather(task, return_exceptions=True)
