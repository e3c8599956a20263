"""HTTP connections with a count limit and a request timeout.

A client that sends a request byte by byte, or nothing, must not keep others out: when all
connections are taken, a new one takes the place of one whose request has not arrived, of the agent
or the address that has the most of them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from sshwarma.common.limits import (
    HTTP_HEAD_TIMEOUT_SECONDS,
    MAX_HTTP_CONNECTIONS,
    SAFE_HTTP_INPUT_SECONDS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.web._uvicorn import HttpConnection
from sshwarma.web.errors import make_error_body
from sshwarma.world.bearer import SCOPE_AGENT_KEY

_RESPONSE_TEMPLATE: Final = (
    "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
    "Connection: close\r\n\r\n{}"
)


class BoundedConnection(HttpConnection):
    """The protocol that uvicorn makes for each connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting: asyncio.TimerHandle | None = None
        self._input_since = 0.0  # start of the head or the body it waits for, in loop seconds
        self._timed_scope: Mapping[str, Any] = {}  # of the request whose body that is

    @override
    def on_connected(self) -> None:
        if self.connection_count > MAX_HTTP_CONNECTIONS and not self._take_place():
            count_refusal("http_connections")
            problem = with_limit("Too many connections", MAX_HTTP_CONNECTIONS)
            message = f"{problem}. Try again soon."
            self._refuse("503 Service Unavailable", "unavailable", message)
        else:
            self._wait_for_head()

    def _take_place(self) -> bool:
        """End the connection longest without input, of the owner with most such ones.

        Returns False if none has waited for SAFE_HTTP_INPUT_SECONDS.
        """
        waiting = [
            other
            for other in self.connections
            if isinstance(other, BoundedConnection) and other is not self and other._lacks_input
        ]
        counts = Counter(other._owner for other in waiting)
        until = asyncio.get_running_loop().time() - SAFE_HTTP_INPUT_SECONDS
        late = [other for other in waiting if other._input_since <= until]
        if not late:
            return False
        count_refusal("http_place_taken")
        loser = min(late, key=lambda other: (-counts[other._owner], other._input_since))
        message = (
            f"All {MAX_HTTP_CONNECTIONS} connections are taken, and the request was not"
            f" complete after {SAFE_HTTP_INPUT_SECONDS:.0f} s. Send it again."
        )
        loser._refuse("503 Service Unavailable", "unavailable", message)
        return True

    @property
    def _lacks_input(self) -> bool:
        return not self.is_closing and (self.is_awaiting_head or self.is_awaiting_body)

    @property
    def _owner(self) -> str:
        """The agent whose body is awaited, if known; else the address."""
        agent_id = self.request_scope.get(SCOPE_AGENT_KEY, "") if self.is_awaiting_body else ""
        return agent_id or self.address

    @override
    def on_data(self) -> None:
        if self.is_awaiting_head:
            self._wait_for_head()
            return
        if self.request_scope is not self._timed_scope:
            self._timed_scope = self.request_scope
            self._input_since = asyncio.get_running_loop().time()
        self._on_head_complete()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._on_head_complete()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._waiting is None and not self.is_closing:
            loop = asyncio.get_running_loop()
            self._input_since = loop.time()
            self._waiting = loop.call_later(HTTP_HEAD_TIMEOUT_SECONDS, self._on_head_timeout)

    def _on_head_complete(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _on_head_timeout(self) -> None:
        count_refusal("http_head_timeout")
        message = f"The request head timed out after {HTTP_HEAD_TIMEOUT_SECONDS:.0f} s."
        self._refuse("408 Request Timeout", "request_timeout", message)

    def _refuse(self, status: str, code: str, words: str) -> None:
        body = json.dumps(make_error_body(code, words))
        self.close_with(_RESPONSE_TEMPLATE.format(status, len(body), body).encode())
