"""HTTP client for untrusted servers.

It connects only to checked addresses, bounds the size of responses, and refuses compression, which
would hide their size.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import Any, Final

import httpcore2
import httpx2
from typing_extensions import override

from sshwarma.common.json_guard import JsonTooLarge, check_json_size
from sshwarma.common.limits import MAX_SERVER_MESSAGE_BYTES, MCP_CONNECT_TIMEOUT_SECONDS
from sshwarma.common.messages import with_limit
from sshwarma.common.units import MIB
from sshwarma.mcp.client.address import (
    TOOLSET_PRIVATE_HINT,
    Resolver,
    resolve_allowed,
    resolve_host,
)
from sshwarma.mcp.client.sdk._httpx import GuardedTransport
from sshwarma.mcp.client.throttle import Throttle

MAX_ADDRESSES: Final = 4
"""Addresses of one host that are tried."""

MAX_STREAM_BYTES: Final = 16 * MAX_SERVER_MESSAGE_BYTES
"""Bytes of an event stream that answers one request."""


class ResponseTooLong(httpx2.StreamError):
    """A response is over the size limit."""


class CheckedNetworkBackend(httpcore2.AsyncNetworkBackend):
    """Network backend that checks a host's addresses and connects to a checked one."""

    def __init__(
        self, allow_private: bool, resolve: Resolver = resolve_host, *, of_toolset: bool = False
    ) -> None:
        self._check = partial(resolve_allowed, allow_private=allow_private, resolve=resolve)
        if of_toolset:
            self._check = partial(self._check, private_hint=TOOLSET_PRIVATE_HINT)
        self._inner = httpcore2.AnyIOBackend()

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await self._check(host, port)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host}: {error.strerror or error}") from error
        failure = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses[:MAX_ADDRESSES]:
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = httpcore2.ConnectError(f"cannot connect to {host} port {port}")
                failure.__cause__ = error
        raise failure

    @override
    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class CheckedTransport(GuardedTransport):
    """Transport that bounds responses and records error statuses.

    Attributes:
        refused_status: The last 401 or 403 status, or 0.
        error_status: The last other error status, or 0.
    """

    def __init__(
        self, context: ssl.SSLContext, backend: CheckedNetworkBackend, connections: int
    ) -> None:
        super().__init__(context, backend, connections)
        self.refused_status = self.error_status = 0

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.status_code in (401, 403):
            self.refused_status = response.status_code
        elif response.is_error:
            self.error_status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError(
                "its response is compressed, but no compression was requested"
            )
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - it is ours
        kind = response.headers.get("content-type", "").lower()
        response.stream = _BoundedStream(
            response.stream, request.method, events=kind.startswith("text/event-stream")
        )
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    """Response body that fails over a limit of bytes, or of values.

    Values are counted if it is no event stream.

    Events are checked one by one where they are parsed. An event stream that answers no request
    (GET) has no limit of length.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, method: str, *, events: bool) -> None:
        self._inner = inner
        self._events = events
        self._flow = Throttle()
        answers = method == "POST" or not events
        max_bytes = MAX_STREAM_BYTES if events else MAX_SERVER_MESSAGE_BYTES
        self._max_bytes = max_bytes if answers else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        body = bytearray()
        async for chunk in self._inner:
            size += len(chunk)
            if self._max_bytes is not None and size > self._max_bytes:
                size_limit = f"{self._max_bytes // MIB} MiB"
                raise ResponseTooLong(f"{with_limit('The response is too large', size_limit)}.")
            if self._events:
                await self._flow.acquire(_count_events(chunk), len(chunk))
                yield chunk
            else:
                body += chunk
        if not self._events:  # the SDK parses the whole body, some kinds in places of its own
            try:
                check_json_size(body)
            except JsonTooLarge as error:
                raise ResponseTooLong(f"The response {error}.") from None
            yield bytes(body)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _count_events(part: bytes) -> int:
    return part.count(b"\n\n") + part.count(b"\r\n\r\n")


def make_client(
    transport: CheckedTransport,
    headers: Mapping[str, str],
    user_agent: str,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Create a client without a read timeout.

    A read timeout would end every call on the connection for one slow response; each call has its
    own timeout instead.
    """
    return httpx2.AsyncClient(
        transport=transport,
        auth=auth,
        headers={"Accept-Encoding": "identity", "User-Agent": user_agent, **headers},
        timeout=httpx2.Timeout(MCP_CONNECT_TIMEOUT_SECONDS, read=None, pool=None),
    )


def make_ssl_context() -> ssl.SSLContext:
    """Create the TLS context; reads files, so do not call it on the event loop."""
    return httpx2.create_ssl_context()
