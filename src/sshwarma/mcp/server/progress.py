"""Progress notifications of a tool call, for clients that ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mcp.shared.jsonrpc_dispatcher import progress_token_from_params

from sshwarma.mcp.server.request_context import RequestContext


@asynccontextmanager
async def progress_reporter(ctx: RequestContext) -> AsyncIterator[Callable[[str], None] | None]:
    """Yield a function that reports progress, or None if the client wants none.

    A newer report replaces one that is not sent yet.
    """
    if progress_token_from_params(ctx.params) is None:
        yield None
        return
    latest: list[str] = []
    news = asyncio.Event()

    def report(text: str) -> None:
        latest[:] = [text]
        news.set()

    async def send() -> None:
        sent = 0
        while True:
            await news.wait()
            news.clear()
            sent += 1
            await ctx.session.report_progress(sent, None, latest[0])

    sending = asyncio.get_running_loop().create_task(send())
    try:
        yield report
    finally:
        sending.cancel()
        # Retrieve the error of a disconnected client, or asyncio would report it.
        await asyncio.gather(sending, return_exceptions=True)
