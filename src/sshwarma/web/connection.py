"""HTTP connections with limits of their number and a request timeout.

A client that sends a request byte by byte, or nothing, or that reads nothing, must not keep others
out: when all connections are taken, or all of one address, a new one takes the place of one that
waits for its client.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from typing_extensions import override

from sshwarma.common.address_groups import group_address
from sshwarma.common.limits import (
    HTTP_HEAD_TIMEOUT_SECONDS,
    HTTP_WRITE_TIMEOUT_SECONDS,
    MAX_HTTP_CONNECTIONS,
    SAFE_HTTP_INPUT_SECONDS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import RefusedBy, count_refusal
from sshwarma.settings import ReloadableSettings
from sshwarma.web._uvicorn import HttpConnection, SocketConnection
from sshwarma.web.errors import make_error_body
from sshwarma.web.forwarded import is_proxy
from sshwarma.world.bearer import SCOPE_AGENT_KEY

_RESPONSE_TEMPLATE: Final = (
    "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
    "Connection: close\r\n\r\n{}"
)


class BoundedConnection(HttpConnection):
    """The protocol that uvicorn makes for each connection."""

    def __init__(self, *given: Any, settings: ReloadableSettings, **named: Any) -> None:
        super().__init__(*given, **named)
        self._settings = settings
        self._group = ""
        self._waiting: asyncio.TimerHandle | None = None
        self._input_since = 0.0  # start of the head or the body it waits for, in loop seconds
        self._timed_scope: Mapping[str, Any] = {}  # of the request whose body that is
        self._unread_since = 0.0  # start of the time in which its client read nothing, or 0
        self._reading: asyncio.TimerHandle | None = None

    @override
    def on_connected(self) -> None:
        self._group = group_address(self.address)
        limit = self._settings.http.max_connections_per_address
        # A proxy has none: it has the connections of everybody.
        is_of_proxy = is_proxy(self.address, self._settings.http.proxy_from)
        if not is_of_proxy and self._count_group() > limit:
            if not self._take_place_in_group(limit):
                self._refuse_new("http_address", "Too many connections from your address", limit)
                return
        elif self.connection_count > MAX_HTTP_CONNECTIONS and not (
            self._drop_ending_socket() or self._take_place()
        ):
            self._refuse_new("http_connections", "Too many connections", MAX_HTTP_CONNECTIONS)
            return
        self._wait_for_head()

    def _refuse_new(self, kind: RefusedBy, problem: str, limit: int) -> None:
        count_refusal(kind)
        message = f"{with_limit(problem, limit)}. Try again soon."
        self._refuse("503 Service Unavailable", "unavailable", message)

    def _count_group(self) -> int:
        """Return the number of open connections of the address, with this one."""
        return sum(other._group == self._group and not other.is_closing for other in self._all())

    def _all(self) -> Iterator[BoundedConnection]:
        return (other for other in self.connections if isinstance(other, BoundedConnection))

    def _list_waiting(self) -> list[BoundedConnection]:
        """Return the others that wait for their clients, the longest first."""
        waiting = (other for other in self._all() if other is not self and other._awaits_client)
        return sorted(waiting, key=lambda other: other._waits_since)

    def _take_place_in_group(self, limit: int) -> bool:
        """End the connection of the same address that waits longest for its client.

        Returns False if each has sent its request and reads the response.
        """
        mine = (other for other in self._list_waiting() if other._group == self._group)
        loser = next((other for other in mine if other._may_lose_place), None)
        if loser is not None:
            loser._lose_place(with_limit("Too many connections from your address", limit))
        return loser is not None

    def _drop_ending_socket(self) -> bool:
        """End a socket that was closed and waits for its client, if there is one."""
        for other in self.connections:
            if isinstance(other, SocketConnection) and other.is_ending:
                count_refusal("http_place_taken")
                other.drop()
                return True
        return False

    def _take_place(self) -> bool:
        """End the connection that waits longest, of the owner with most such ones.

        Returns False if no owner has more of them than this one, and none has waited for
        SAFE_HTTP_INPUT_SECONDS.
        """
        waiting = self._list_waiting()
        counts = Counter(other._owner for other in waiting)
        until = asyncio.get_running_loop().time() - SAFE_HTTP_INPUT_SECONDS
        counts[self._owner] += 1
        for other in sorted(waiting, key=lambda other: -counts[other._owner]):
            fair = 1 if other._owner == self._owner else counts[self._owner]
            is_losing = counts[other._owner] > fair or other._waits_since <= until
            if is_losing and other._may_lose_place:
                other._lose_place(f"All {MAX_HTTP_CONNECTIONS} connections are taken")
                return True
        return False

    def _lose_place(self, reason: str) -> None:
        count_refusal("http_place_taken")
        if self._unread_since:
            self.drop()
            return
        message = f"{reason}, and the request was not complete. Send it again."
        self._refuse("503 Service Unavailable", "unavailable", message)

    @property
    def _awaits_client(self) -> bool:
        is_waiting = self._unread_since or self.is_awaiting_head or self.is_awaiting_body
        return not self.is_closing and bool(is_waiting)

    @property
    def _waits_since(self) -> float:
        return self._unread_since or self._input_since

    @property
    def _may_lose_place(self) -> bool:
        """Whether it waits still: bytes may have come that the event loop has not read."""
        return bool(self._unread_since) or not self.has_unread_input

    @property
    def _owner(self) -> str:
        """The agent whose body is awaited, if known; else the address that is."""
        if not self.is_awaiting_body:
            return self._group
        client = self.request_scope.get("client")  # as a proxy has named it
        address = group_address(client[0]) if client else self._group
        return str(self.request_scope.get(SCOPE_AGENT_KEY) or address)

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
    def on_upgraded(self) -> None:
        self._on_head_complete()

    @override
    def on_write_paused(self) -> None:
        loop = asyncio.get_running_loop()
        self._unread_since = loop.time()
        self._reading = loop.call_later(HTTP_WRITE_TIMEOUT_SECONDS, self._on_write_timeout)

    @override
    def on_write_resumed(self) -> None:
        self._unread_since = 0.0
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _on_write_timeout(self) -> None:
        count_refusal("http_write_timeout")
        self.drop()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._on_head_complete()
        self.on_write_resumed()
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
