"""HTTP connections with a count limit and a request timeout.

A client that sends a request byte by byte, or nothing, must not keep others out.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from typing_extensions import override

from sshwarma.common.limits import HTTP_HEAD_TIMEOUT_SECONDS, MAX_HTTP_CONNECTIONS
from sshwarma.web._uvicorn import HttpConnection
from sshwarma.web.errors import make_error_body

_RESPONSE_TEMPLATE: Final = (
    "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
    "Connection: close\r\n\r\n{}"
)


class BoundedConnection(HttpConnection):
    """The protocol that uvicorn makes for each connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting: asyncio.TimerHandle | None = None

    @override
    def on_connected(self) -> None:
        if self.connection_count > MAX_HTTP_CONNECTIONS:
            message = f"Too many connections (limit {MAX_HTTP_CONNECTIONS}). Try again soon."
            self._refuse("503 Service Unavailable", "unavailable", message)
        else:
            self._wait_for_head()

    @override
    def on_data(self) -> None:
        if self.is_awaiting_head:
            self._wait_for_head()
        else:
            self._on_head_complete()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._on_head_complete()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._waiting is None and not self.is_closing:
            self._waiting = asyncio.get_running_loop().call_later(
                HTTP_HEAD_TIMEOUT_SECONDS, self._on_head_timeout
            )

    def _on_head_complete(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _on_head_timeout(self) -> None:
        message = f"The request head timed out after {HTTP_HEAD_TIMEOUT_SECONDS:.0f} s."
        self._refuse("408 Request Timeout", "request_timeout", message)

    def _refuse(self, status: str, code: str, words: str) -> None:
        body = json.dumps(make_error_body(code, words))
        self.close_with(_RESPONSE_TEMPLATE.format(status, len(body), body).encode())
