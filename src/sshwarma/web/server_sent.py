"""Server-sent events as responses: headers, and comments that keep them open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse

from sshwarma.web.endpoints import EVENT_STREAM_TYPE

KEEP_ALIVE_SECONDS: Final = 15.0
"""Seconds without an event after which a comment is sent: proxies close what is silent."""

KEEP_ALIVE_COMMENT: Final = b": still here\n\n"


def stream_events(parts: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response of a stream, which proxies do not hold back."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts, media_type=EVENT_STREAM_TYPE, headers=headers)
