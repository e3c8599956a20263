"""Server-sent events as responses: headers, and comments that keep them open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from sshwarma.web._uvicorn import WRITE_CHUNK
from sshwarma.web.endpoints import EVENT_STREAM_TYPE

KEEP_ALIVE_SECONDS: Final = 15.0
"""Seconds without an event after which a comment is sent: proxies close what is silent."""

KEEP_ALIVE_COMMENT: Final = b": still here\n\n"


class _EventResponse(StreamingResponse):
    """A stream whose parts are written past ASGI where the connection can."""

    _write_chunk: Callable[[bytes], bool]

    def __init__(self, parts: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(parts, headers=headers, media_type=EVENT_STREAM_TYPE)
        self._parts = parts

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._write_chunk = scope["extensions"][WRITE_CHUNK]
        await super().__call__(scope, receive, send)

    @override
    async def stream_response(self, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        body = {"type": "http.response.body", "more_body": True}
        async for part in self._parts:
            if not self._write_chunk(part):
                await send({**body, "body": part})
        await send({"type": "http.response.body"})


def stream_events(parts: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response of a stream, which proxies do not hold back."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return _EventResponse(parts, headers)
